# syntax=docker/dockerfile:1
# The program in an image.
#
#   docker build -t embedctl .                      for processors
#   docker build -t embedctl:cuda --target cuda .   with ONNX Runtime and CUDA's libraries; run it with --gpus all
#
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" -v embedctl:/cache embedctl embed texts.txt -o vectors.parquet
#
# Files are in /data, and the models that are fetched in /cache.

# At least `rust-version` of Cargo.toml.
FROM rust:1.94-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --profile dist --locked --bin embedctl && install -D target/dist/embedctl /out/embedctl

# ONNX Runtime's libraries and CUDA's, as pip lays them out. Python itself is not needed to run them.
FROM python:3.12-slim-bookworm AS onnxruntime
RUN python -m venv --copies /opt/onnxruntime \
    && /opt/onnxruntime/bin/pip install --no-cache-dir 'onnxruntime-gpu[cuda,cudnn]>=1.24'

FROM debian:bookworm-slim AS base
COPY --from=build /out/embedctl /usr/local/bin/embedctl
COPY LICENSE LICENSE-APACHE LICENSE-MIT /usr/share/doc/embedctl/
# Whatever user the container runs as may fetch models.
RUN install -d -m 1777 /cache /data
ENV HF_HOME=/cache/huggingface HOME=/cache
VOLUME /cache
WORKDIR /data
EXPOSE 8080
ENTRYPOINT ["embedctl"]
CMD ["--help"]

FROM base AS cuda
COPY --from=onnxruntime /opt/onnxruntime /opt/onnxruntime
ENV EMBEDCTL_ORT_LIB=/opt/onnxruntime NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility

# The last stage is the one that is built by default.
FROM base AS cpu
