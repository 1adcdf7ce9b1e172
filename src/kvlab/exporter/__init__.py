"""`kvlab exporter`: what vLLM, LMCache and node_exporter do not say about KV-cache offload, as Prometheus metrics."""
