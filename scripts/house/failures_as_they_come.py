import os
def pytest_runtest_logreport(report):
    if report.failed and not os.environ.get("PYTEST_XDIST_WORKER"):
        with open(os.environ.get("INSTA","/tmp/insta.log"),"a") as f:
            f.write(f"\n______ {report.nodeid} ______\n{report.longreprtext}\n")
