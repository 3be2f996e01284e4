"""``python -m tools.first_join``: trace a first JoinGroup, and write docs/explanation/first-join.md from it."""

from proxy.config.schema import Log
from proxy.runtime.log_setup import configure
from tools.first_join import page
from tools.first_join.run import traced

if __name__ == "__main__":
    configure(Log(level="error"))
    way = traced()
    page.PAGE.write_text(page.written(way), encoding="utf-8")
    print(page.summary(way))
    print(f"{len(way.files) - len(way.stops)} other files ran meanwhile")
