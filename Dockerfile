FROM python:3.11-slim
WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY idbandits idbandits
RUN pip install --no-cache-dir --constraint constraints.txt '.[serve]'
ENV NUMBA_CACHE_DIR=/var/cache/idbandits
RUN useradd --create-home service && mkdir -p "$NUMBA_CACHE_DIR" && chown service "$NUMBA_CACHE_DIR"
USER service
EXPOSE 8080
HEALTHCHECK CMD python -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz')"
CMD ["idbandits", "serve", "--host", "0.0.0.0", "--port", "8080"]
