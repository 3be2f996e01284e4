# Formats the storage of this node at its first start, then runs it. The pod's ordinal is its node id.
set -eu
id=${HOSTNAME##*-}
service=my-cluster-kafka-brokers.$NAMESPACE.svc
data=/var/lib/kafka
java="java -Xms128m -Xmx400m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp /opt/kafka/libs/* -Dlog4j2.configurationFile=/etc/kafka/log4j2.properties"

# One file with key and chain, as Kafka reads PEM.
(cat /etc/kafka-broker/tls.key /etc/kafka-broker/tls.crt) > /tmp/broker.pem

voters=
for node in 0 1 2; do voters=$voters,$node@my-cluster-dual-role-$node.$service:9090; done
cp /etc/kafka/server.properties /tmp/server.properties
cat >> /tmp/server.properties <<P
node.id=$id
log.dirs=$data/log
controller.quorum.voters=${voters#,}
advertised.listeners=REPLICATION-9091://$HOSTNAME.$service:9091,TLS-9093://$HOSTNAME.$service:9093
P

set -f    # /opt/kafka/libs/* is for Java, not for the shell
users=
for name in admin epochgate epochgate-pipeline epochgate-test payments; do
  users="$users --add-scram SCRAM-SHA-512=[name=$name,password=$(cat "/etc/kafka-users/$name/password")]"
done
$java kafka.tools.StorageTool format --ignore-formatted --cluster-id "$CLUSTER_ID" --config /tmp/server.properties $users
exec $java kafka.Kafka /tmp/server.properties
