"""The status page outside the cluster: by an Ingress or a Gateway, and never without credentials."""

from typing import Any

import pytest
import yaml

from tools.chart import render

pytestmark = pytest.mark.usefixtures("helm")

BROKERS = ("--set-json", 'upstream.bootstrap=["kafka:9092"]')
TOKEN = ("--set", "admin.auth.existingSecret=token")
TLS = ("--set", "admin.tls.existingSecret=tls")
INGRESS = ("--set", "statusPage.host=epochgate.example,statusPage.ingress.enabled=true")
ROUTE = (
    "--set",
    "statusPage.host=epochgate.example,statusPage.httpRoute.enabled=true,statusPage.httpRoute.parentRefs[0].name=web",
)


@pytest.fixture(scope="module")
def manifests(helm) -> list[render.Manifest]:
    return render.documents(render.ci("status-page"))


def admin_port(manifests: list[render.Manifest]) -> dict[str, Any]:
    return render.one(manifests, "Service", "epochgate-admin")["spec"]["ports"][0]


def test_both_lead_to_the_admin_port_by_the_host(manifests):
    ingress = render.one(manifests, "Ingress", "epochgate-admin")["spec"]
    route = render.one(manifests, "HTTPRoute", "epochgate-admin")["spec"]
    (rule,), (path,) = ingress["rules"], ingress["rules"][0]["http"]["paths"]
    assert (rule["host"], route["hostnames"]) == ("epochgate.example", ["epochgate.example"])
    assert path["backend"]["service"]["port"]["name"] == admin_port(manifests)["name"]
    assert route["rules"][0]["backendRefs"] == [
        {"name": "epochgate-admin", "port": admin_port(manifests)["port"]}
    ]


def test_browsers_and_pods_are_spoken_to_by_tls(manifests):
    ingress = render.one(manifests, "Ingress", "epochgate-admin")["spec"]
    assert ingress["tls"] == [{"hosts": ["epochgate.example"], "secretName": "epochgate-example-tls"}]
    policy = render.one(manifests, "BackendTLSPolicy", "epochgate-admin")["spec"]
    assert policy["targetRefs"] == [{"group": "", "kind": "Service", "name": "epochgate-admin"}]
    assert policy["validation"]["hostname"] == "epochgate-admin.kafka.svc"


def test_the_proxy_answers_to_the_host(manifests):
    config = yaml.safe_load(render.one(manifests, "ConfigMap", "epochgate-config")["data"]["epochgate.yaml"])
    assert "epochgate.example" in config["admin"]["hosts"]
    assert config["admin"]["token_file"]


def test_the_network_policy_lets_the_controller_in(manifests):
    policy = render.one(manifests, "NetworkPolicy", "epochgate")["spec"]
    (rule,) = [one for one in policy["ingress"] if [at["port"] for at in one["ports"]] == [9080]]
    assert rule["from"] == [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}}}
    ]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([*INGRESS], "statusPage.ingress: the page and its API show every group and client; set admin.auth"),
        (
            [*ROUTE, *TLS],
            "statusPage.httpRoute: the page and its API show every group and client; set admin.auth",
        ),
        ([*INGRESS, *TOKEN], "the token would cross the cluster's network in plain text; set admin.tls"),
        ([*INGRESS, *TOKEN, *TLS, "--set", "statusPage.host="], "statusPage.host: needed"),
        ([*ROUTE, *TOKEN, *TLS, "--set", "statusPage.httpRoute.parentRefs=null"], "parentRefs: needed"),
        ([*INGRESS, *TOKEN, *TLS, "--set", "networkPolicy.enabled=true"], "statusPage.from: needed"),
        (["--set", "statusPage.host=a.example"], "statusPage: is described but not enabled"),
        ([*INGRESS, "--set", "statusPage.host=https://a.example"], "/statusPage/host"),
        (
            [*INGRESS, *TOKEN, *TLS, "--set", "admin.tls.clientAuth=required,admin.tls.clientCaSecretName=a"],
            "lets no browser in",
        ),
    ],
)
def test_a_page_that_anybody_could_read_and_what_does_not_fit_is_refused(values, said):
    with pytest.raises(render.HelmError) as error:
        render.template(*BROKERS, *values)
    assert said in str(error.value)
