# What the broker's image runs: formats the storage of one node, which advertises the container's own address.
set -eu
cp /etc/kafka/server.properties /tmp/server.properties
echo "advertised.listeners=PLAINTEXT://$(hostname -i):9092" >> /tmp/server.properties
java="java -Xms128m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
$java -cp "/opt/kafka/libs/*" kafka.tools.StorageTool format --cluster-id 4L6g3nShT-eMCtK--X86sw --config /tmp/server.properties
exec $java -cp "/opt/kafka/libs/*" kafka.Kafka /tmp/server.properties
