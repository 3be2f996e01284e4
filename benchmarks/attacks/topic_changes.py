"""Rights on the member log's topic, and its settings, as somebody changes them and changes them back."""

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from proxy.member_log.topic import required_settings

WRONG = {
    "retention.ms": "86400000",
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
}
"""Settings by which replicas may come to disagree."""

RIGHTS = (AclOperation.WRITE, AclOperation.READ, AclOperation.DESCRIBE)
_TIMEOUT_S = 30.0


class TopicOfLog:
    """The topic, as an administrator of the cluster has it."""

    def __init__(self, bootstrap: str, name: str, partitions: int, account: str) -> None:
        self.name, self._partitions, self._account = name, partitions, account
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def make(self, **settings: str) -> None:
        """Make it, with these settings instead of those that it has to have; again while its namesake goes."""
        topic = NewTopic(self.name, self._partitions, 1, config={**required_settings(1), **settings})
        for tries_left in range(100, -1, -1):
            try:
                self._admin.create_topics([topic])[self.name].result(_TIMEOUT_S)
            except KafkaException:
                if not tries_left:
                    raise
            else:
                return

    def delete(self) -> None:
        """Delete it."""
        self._admin.delete_topics([self.name])[self.name].result(_TIMEOUT_S)

    def allow(self, *rights: AclOperation) -> None:
        """Let the account do this to any topic of the member log, and to groups."""
        for right in rights:
            self._create(self._acl(right, AclPermissionType.ALLOW))

    def withdraw(self, right: AclOperation) -> None:
        """Deny the account one right."""
        self._create(self._acl(right, AclPermissionType.DENY))

    def give_back(self, right: AclOperation) -> None:
        """Deny it no longer."""
        acl = self._acl(right, AclPermissionType.DENY)
        denied = AclBindingFilter(
            acl.restype,
            acl.name,
            acl.resource_pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for deleted in self._admin.delete_acls([denied]).values():
            deleted.result(_TIMEOUT_S)

    def set(self, name: str, value: str) -> None:
        """Change one setting."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self.name, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(_TIMEOUT_S)

    def restore(self, name: str) -> None:
        """Change a setting back to what it has to be."""
        self.set(name, required_settings(1)[name])

    def _create(self, acl: AclBinding) -> None:
        for created in self._admin.create_acls([acl]).values():
            created.result(_TIMEOUT_S)

    def _acl(self, right: AclOperation, permission: AclPermissionType) -> AclBinding:
        return AclBinding(
            ResourceType.TOPIC,
            self.name,
            ResourcePatternType.LITERAL,
            f"User:{self._account}",
            "*",
            right,
            permission,
        )
