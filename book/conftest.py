"""nbval compares no pictures. It knows PNG and JPEG as such, and has to be told of SVG."""


def pytest_collectstart(collector):
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += ("image/svg+xml",)
