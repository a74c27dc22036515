// Buttons that expand a branch of the navigation have an icon only; give them a name.
document.addEventListener("DOMContentLoaded", () => {
  for (const summary of document.querySelectorAll(".bd-sidebar-primary summary")) {
    const branch = summary.closest("li").querySelector("a");
    summary.setAttribute("aria-label", `Pages of ${branch.textContent.trim()}`);
  }
});
