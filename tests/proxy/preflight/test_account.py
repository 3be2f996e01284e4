"""The process that asks with an account: what it sends arrives whole, and its crash is a finding."""

import json

import pytest
from typer.testing import CliRunner

from protocol_codecs.messages.describe_groups import DescribedGroup, DescribedGroupMember
from proxy.cli import command_line
from proxy.config.schema import Address
from proxy.preflight import account
from proxy.preflight.account_messages import ANSWERS, ENCODER, Answers, Groups, Rest, SentGroup
from proxy.preflight.ask_brokers import BrokerAddress
from proxy.preflight.facts import Acl, Group, Kind, Member, Unknown
from proxy.runtime.exit_codes import ExitCode
from proxy.runtime.frames import message_decoder

UNKNOWN = Unknown("the account may not", "give it the right")
CLASSIC = DescribedGroup(
    group_id="g",
    members=(DescribedGroupMember(member_id="m", member_metadata=b"\xff\0", member_assignment=b""),),
)
ACL = Acl(
    resource="TOPIC",
    name="t",
    pattern="LITERAL",
    principal="User:bob",
    host="*",
    operation="READ",
    permission="ALLOW",
)
MEMBERS = (Member(member_id="m", instance_id=None, client_host="/1"),)


@pytest.mark.parametrize(
    "answers",
    [
        Answers(brokers=UNKNOWN, settings={}, groups=UNKNOWN, complete_groups=UNKNOWN, acls=UNKNOWN),
        Answers(
            brokers=(BrokerAddress(1, Address("broker", 9092)),),
            settings={1: {"why": "x", "do": "y"}, 2: UNKNOWN},
            groups=(
                Group(group_id="g", kind=Kind.CLASSIC, classic=CLASSIC, members=MEMBERS, settings=UNKNOWN),
                Group(group_id="h", kind=Kind.CONSUMER, members=UNKNOWN, settings={"a": "b"}),
            ),
            complete_groups=None,
            acls=(ACL,),
        ),
    ],
)
def test_what_brokers_tell_arrives_whole(answers):
    groups = () if isinstance(answers.groups, Unknown) else answers.groups
    sent = ANSWERS.decode(ENCODER.encode(Groups([SentGroup.of(group) for group in groups])))
    rest = ANSWERS.decode(ENCODER.encode(Rest.of(answers)))
    assert isinstance(rest, Rest)
    assert rest.answers(tuple(group.group() for group in sent.groups)) == answers


def test_a_crash_is_a_finding_and_has_an_exit_code(monkeypatch):
    monkeypatch.setattr(account, "MODULE", "tests.proxy.fakes.crashing_child")
    done = CliRunner().invoke(
        command_line(), ["preflight", "--kafka-conf", "bootstrap.servers=127.0.0.1:1", "-o", "json"]
    )
    assert done.exit_code == ExitCode.UNDECIDED
    whats = [one["what"] for one in json.loads(done.stdout)["findings"]]
    assert any("has crashed: it was ended by SIGSEGV" in what for what in whats)


async def test_nonsense_is_why_nothing_is_known(monkeypatch):
    monkeypatch.setattr(account, "ANSWERS", message_decoder(int))
    told = await account.ask_with_account({"no.such.property": "x"}, 1.0)
    assert isinstance(told, Unknown)
    assert "what is no message" in told.why
