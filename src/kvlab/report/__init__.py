"""The TTFT report: one HTML page that stands alone, and its figures as PNG."""
