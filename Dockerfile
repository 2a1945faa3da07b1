# syntax=docker/dockerfile:1
# The program in an image.
#
#   docker build -t embedctl .                      for processors
#   docker build -t embedctl:cuda --target cuda .   with CUDA's libraries for NVIDIA GPUs; run it with --gpus all
#
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" -v embedctl:/cache embedctl embed texts.txt -o vectors.parquet
#
# Files are in /data, and the models that are fetched in /cache.

# At least `rust-version` of Cargo.toml.
FROM rust:1.94-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --profile dist --locked --bin embedctl && install -D target/dist/embedctl /out/embedctl

# What embedctl's own engine needs of CUDA, as pip lays it out. ONNX files on a GPU need onnxruntime-gpu, which is many times
# as large. Python itself is not needed to run them.
FROM python:3.12-slim-bookworm AS libraries
RUN python -m venv --copies /opt/cuda \
    && /opt/cuda/bin/pip install --no-cache-dir 'nvidia-cublas>=13' 'nvidia-cuda-nvrtc>=13'

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
COPY --from=libraries /opt/cuda /opt/cuda
ENV VIRTUAL_ENV=/opt/cuda NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility

# The last stage is the one that is built by default.
FROM base AS cpu
