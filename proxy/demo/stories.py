"""The stories that the demo can tell."""

from proxy.demo import runner, summary, verdict
from proxy.demo.share import plan as share_plan
from proxy.demo.share import result as share_result
from proxy.demo.share import story as share_story
from proxy.demo.share.result import ShareResult
from proxy.demo.story import Story
from proxy.demo.verdict import Result

REBALANCE: Story[Result] = Story(runner.run_on_cluster, summary.summary, verdict.problems, partitions=8)
SHARE: Story[ShareResult] = Story(
    share_story.run_on_cluster, share_result.summary, share_result.problems, partitions=share_plan.PARTITIONS
)
