// Draws plots, exchanges parts of pages without loading them again, and follows the stream of changes.
"use strict";
(() => {
  const LEAST_PAUSE = 5000; // milliseconds between refreshes
  const plots = new Map();

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const isNumber = (x) => x !== null && x !== undefined && !Number.isNaN(x);

  function shown(value, data) {
    if (!isNumber(value)) return "–";
    const x = data.percent ? 100 * value : value;
    const digits = x === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.abs(x))));
    const text = x.toLocaleString("en", { maximumFractionDigits: Math.min(digits, 8) }).replace("-", "−");
    return data.percent ? `${text} %` : text;
  }

  function age(seconds) {
    for (const [unit, name] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
      if (seconds >= unit) return `${+(seconds / unit).toPrecision(2)} ${name}`;
    }
    return `${+seconds.toPrecision(2)} s`;
  }

  const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

  function day(seconds, step) {
    const date = new Date(seconds * 1000), name = `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
    if (step >= 300 * 86400) return String(date.getUTCFullYear());
    return step >= 86400 || seconds % 86400 === 0 ? name : date.toISOString().slice(11, 16);
  }

  function place(x, data) {
    if (data.ticks) return data.ticks[x] ?? "";
    if (data.ages) return age(x);
    return new Date(x * 1000).toISOString().slice(0, 16).replace("T", " ");
  }

  // Values as they are drawn: those of stacked series are sums of all series so far.
  function columns(data) {
    const drawn = [data.x];
    let below = data.x.map(() => 0);
    for (const series of data.series) {
      if (data.stacked) {
        below = series.values.map((value, i) => below[i] + (value ?? 0));
        drawn.push(below);
      } else {
        drawn.push(series.values);
        if (series.low) drawn.push(series.low, series.high);
      }
    }
    return drawn;
  }

  function faded(hex, alpha) {
    const n = parseInt(hex.slice(1), 16);
    return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${alpha})`;
  }

  // Lines of versions and of zero, and the intervals of points.
  function marks(data, bars) {
    return (u) => {
      const { ctx, bbox } = u;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      ctx.lineWidth = devicePixelRatio;
      if (data.zero) {
        const y = u.valToPos(0, "y", true);
        ctx.strokeStyle = colour("--soft");
        ctx.beginPath();
        ctx.moveTo(bbox.left, y);
        ctx.lineTo(bbox.left + bbox.width, y);
        ctx.stroke();
      }
      ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
      for (const marker of data.markers ?? []) {
        if (marker.x < u.scales.x.min || marker.x > u.scales.x.max) continue;
        const x = u.valToPos(marker.x, "x", true);
        ctx.strokeStyle = ctx.fillStyle = colour("--ink");
        ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
        ctx.setLineDash([]);
        const isRight = x > bbox.left + 0.75 * bbox.width;
        ctx.textAlign = isRight ? "right" : "left";
        const at = x + (isRight ? -5 : 5) * devicePixelRatio;
        const width = ctx.measureText(marker.label).width;
        ctx.fillStyle = faded(colour("--page"), 0.85);
        ctx.fillRect(isRight ? at - width - 2 : at - 2, bbox.top + 2, width + 4, 16 * devicePixelRatio);
        ctx.fillStyle = colour("--ink");
        ctx.fillText(marker.label, at, bbox.top + 14 * devicePixelRatio);
      }
      for (const { k, low, high } of bars) {
        ctx.strokeStyle = colour(`--c${k}`);
        ctx.lineWidth = 2 * devicePixelRatio;
        data.x.forEach((x, i) => {
          if (!isNumber(low[i])) return;
          const at = u.valToPos(x, "x", true);
          ctx.beginPath();
          ctx.moveTo(at, u.valToPos(low[i], "y", true));
          ctx.lineTo(at, u.valToPos(high[i], "y", true));
          ctx.stroke();
        });
      }
      ctx.restore();
    };
  }

  function options(data, box) {
    const series = [{}], bands = [], bars = [];
    data.series.forEach((own, k) => {
      const stroke = colour(`--c${Math.min(k, 7)}`);
      const at = series.length;
      series.push({
        label: own.label,
        stroke: own.points && !own.hollow ? undefined : stroke,
        width: own.points ? 0 : data.stacked ? 1 : 2,
        dash: !data.stacked && !own.points && k % 2 ? [8, 3] : undefined,
        fill: data.stacked && k === 0 ? faded(stroke, 0.75) : undefined,
        paths: own.points ? () => null : undefined,
        points: own.points
          ? { show: true, size: own.hollow ? 11 : 7, width: 2, stroke, fill: own.hollow ? "transparent" : stroke }
          : { show: data.x.length === 1, size: 8 },
        spanGaps: true,
      });
      if (data.stacked && k > 0) bands.push({ series: [at, at - 1], fill: faded(stroke, 0.75) });
      if (!data.stacked && own.low) {
        series.push({ stroke: undefined, width: 0, points: { show: false }, spanGaps: true });
        series.push({ stroke: undefined, width: 0, points: { show: false }, spanGaps: true });
        if (own.points) bars.push({ k, low: own.low, high: own.high });
        else bands.push({ series: [at + 2, at + 1], fill: faded(stroke, 0.18) });
      }
    });
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid"), width: 1 } };
    const turned = data.ticks?.some((text) => text.length > 6);
    const x = data.ticks
      ? { ...axis, splits: () => every(data.x, box.clientWidth / (turned ? 24 : 50)), values: (u, own) => own.map((i) => short(data.ticks[i] ?? "")), grid: { show: false }, ...(turned ? { rotate: -50, size: 84 } : { size: 34 }) }
      : data.ages
        ? { ...axis, splits: (u, k, min, max) => apart(AGES.filter((a) => a >= min && a <= max), (a) => u.valToPos(a, "x")), filter: (u, own) => own, values: (u, own) => own.map((a) => (isNumber(a) ? age(a) : "")), space: 50, size: 34 }
        : { ...axis, space: 70, size: 34, values: (u, own, k, space, step) => own.map((t) => day(t, step)) };
    return {
      width: box.clientWidth,
      height: box.clientHeight,
      series,
      bands,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: {
        x: { time: Boolean(data.time), distr: data.ages ? 3 : 1, log: 10, range: data.ticks ? [-0.5, data.x.length - 0.5] : ends(data) },
        y: { range: data.stacked ? [0, 1] : (u, low, high) => room(low, high, data) },
      },
      axes: [
        x,
        { ...axis, size: 62, label: data.y, labelSize: 22, labelFont: "12px system-ui, sans-serif", values: (u, own) => own.map((v) => shown(v, data)) },
      ],
      hooks: { draw: [marks(data, bars)], setCursor: [(u) => read(u, data, box)] },
    };
  }

  const AGES = [1, 5, 15, 60, 300, 1800, 3600, 6 * 3600, 86400, 3 * 86400, 7 * 86400, 30 * 86400, 90 * 86400];
  const apart = (values, at) => values.reduce((own, x) => (own.length && at(x) - at(own[own.length - 1]) < 48 ? own : [...own, x]), []);
  const short = (text) => (text.length > 14 ? `${text.slice(0, 13)}…` : text);
  const every = (values, most) => values.filter((_, i) => i % Math.max(1, Math.ceil(values.length / most)) === 0);

  function ends(data) {
    const first = data.x[0], last = data.x[data.x.length - 1];
    return first < last ? [first, last] : data.ages ? [first / 2, last * 2] : [first - 1800, last + 1800];
  }

  function room(low, high, data) {
    if (!isNumber(low) || !isNumber(high)) return [0, 1];
    if (data.zero || data.percent) { low = Math.min(low, 0); high = Math.max(high, 0); }
    const margin = 0.08 * (high - low) || Math.abs(high) * 0.1 || 1;
    const isShare = data.percent && high <= 1;
    return [data.percent && low >= 0 ? 0 : low - margin, isShare ? Math.min(1, high + margin) : high + margin];
  }

  function read(u, data, box) {
    const line = box.parentElement.querySelector(".readout");
    const i = u.cursor.idx;
    if (!isNumber(i)) { line.textContent = ""; return; }
    const parts = data.series.map((own) => {
      const between = own.low && isNumber(own.low[i]) ? ` (${shown(own.low[i], data)} to ${shown(own.high[i], data)})` : "";
      return `${own.label} ${shown(own.values[i], data)}${between}`;
    });
    line.textContent = `${place(data.x[i], data)}: ${parts.join(", ")}`;
  }

  function draw(box) {
    const source = document.getElementById(box.dataset.plot);
    if (!source || !box.clientWidth) return;
    const text = source.textContent, old = plots.get(box);
    if (old && old.text === text && old.width === box.clientWidth) return;
    if (old) old.plot.destroy();
    const data = JSON.parse(text);
    const plot = new uPlot(options(data, box), columns(data), box);
    plots.set(box, { plot, text, width: box.clientWidth });
    box.dataset.drawn = String(data.x.length);
  }

  const sizes = new ResizeObserver((entries) => entries.forEach((entry) => entry.target.isConnected && draw(entry.target)));

  function drawAll(again) {
    for (const [box, own] of plots) {
      if (!box.isConnected || again) { own.plot.destroy(); plots.delete(box); }
    }
    document.querySelectorAll("[data-plot]").forEach((box) => { draw(box); sizes.observe(box); });
  }

  // Numbers of a plot as a table, made when they are opened.
  function tabulate(details) {
    const data = JSON.parse(document.getElementById(details.dataset.of).textContent);
    const table = document.createElement("table");
    const row = (cells, head) => {
      const tr = document.createElement("tr");
      cells.forEach((text, k) => {
        const cell = document.createElement(head || k === 0 ? "th" : "td");
        cell.scope = head ? "col" : "row";
        if (k > 0) cell.className = "n";
        cell.textContent = text;
        tr.append(cell);
      });
      return tr;
    };
    const head = document.createElement("thead"), body = document.createElement("tbody");
    const names = data.series.flatMap((own) => (own.low ? [own.label, "from", "to"] : [own.label]));
    head.append(row([data.ticks ? "Node" : data.ages ? "Age" : "Time", ...names], true));
    data.x.forEach((x, i) => {
      const cells = data.series.flatMap((own) => (own.low ? [own.values, own.low, own.high] : [own.values]));
      body.append(row([place(x, data), ...cells.map((own) => shown(own[i], data))], false));
    });
    table.append(head, body);
    details.querySelector(".wide").replaceChildren(table);
  }

  // Replace the parts of this page by those of another one; others stay as they are.
  async function exchange(address) {
    const answer = await fetch(address, { headers: { Accept: "text/html" } });
    if (!answer.ok) return false;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const waiting = document.getElementById("pending");
    if (waiting && !page.getElementById("pending")) {
      document.getElementById("content").replaceWith(page.getElementById("content"));
      begin();
    }
    for (const own of document.querySelectorAll("[data-live]")) {
      const other = page.getElementById(own.id);
      if (!other || other.innerHTML === own.innerHTML) continue;
      const focused = own.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      own.innerHTML = other.innerHTML;
      if (focused !== null) {
        const path = focused.split("&order")[0];
        [...own.querySelectorAll("a")].find((a) => a.getAttribute("href").startsWith(path))?.focus();
      }
    }
    drawAll(false);
    document.querySelectorAll("details[open][data-of]").forEach(tabulate);
    return !page.getElementById("pending");
  }

  function follow() {
    const address = document.body.dataset.stream, label = document.getElementById("live-state");
    if (!address || !window.EventSource) return;
    const source = new EventSource(address);
    let known = null, timer = null, last = Date.now();
    const refresh = () => {
      timer = null;
      last = Date.now();
      if (document.hidden) { later(LEAST_PAUSE); return; }
      exchange(location.href).catch(() => {});
    };
    const later = (pause) => { timer = timer ?? setTimeout(refresh, pause); };
    source.onopen = () => { label.textContent = "live"; };
    source.onerror = () => { label.textContent = "reconnecting …"; };
    source.onmessage = (event) => {
      if (known !== null && event.data !== known) later(Math.max(0, last + LEAST_PAUSE - Date.now()));
      known = event.data;
    };
    window.addEventListener("pagehide", () => source.close());
  }

  function begin() {
    drawAll(false);
    document.querySelectorAll("details[data-of]").forEach((own) => own.addEventListener("toggle", () => own.open && tabulate(own)));
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-swap]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    exchange(link.href).then(() => history.replaceState(null, "", link.href)).catch(() => { location.href = link.href; });
  });
  document.addEventListener("change", (event) => event.target.closest(".choices") && event.target.form.requestSubmit());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll(true));
  begin();
  follow();
  const missing = () => exchange(location.href).then((done) => done || setTimeout(missing, 1500)).catch(() => {});
  if (document.getElementById("pending")) setTimeout(missing, 1000);
})();
