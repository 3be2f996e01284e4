// An application on kafkajs. See tests/integration/drivers/line_protocol.py.
//
// kafkajs has no callback for a partition that is taken away. What stands for it here:
//   GROUP_JOIN         the new assignment
//   REBALANCING        all fetchers and handlers have stopped, and JoinGroup comes next
//   its log            where it gives up its membership without an event (GIVES_UP)
'use strict'

const readline = require('node:readline')
const { Kafka, logLevel } = require('kafkajs')
const { version } = require('kafkajs/package.json')

const GIVES_UP = [
  'The coordinator is not aware of this member', // UNKNOWN_MEMBER_ID: it joins anew
  'Topic has been updated, resync group', // new partitions: it joins again
  'Stale cluster metadata, refreshing', // a leader moved: it joins again
  'Crash: ', // it leaves, and may start again by itself
]

const spec = JSON.parse(process.argv[2])
const owned = new Map() // topic -> [partition]
const positions = new Map() // topic -> Map(partition -> next offset)
let sequence = 0
let stallMs = 0

function write(event, fields = {}) {
  // Nanoseconds are too large for JavaScript's numbers, so these two are written by hand.
  const stamps = `"mono":${process.hrtime.bigint()},"time":${BigInt(Date.now()) * 1000000n}`
  const rest = JSON.stringify({ seq: sequence++, ...fields }).slice(1)
  process.stdout.write(`{"event":"${event}",${stamps},${rest}\n`)
}

function own(assignment) {
  owned.clear()
  positions.clear()
  for (const [topic, partitions] of Object.entries(assignment)) owned.set(topic, partitions)
  write('assigned', { partitions: assignment, incremental: false })
}

function letGo(event) {
  if (owned.size === 0) return
  const partitions = Object.fromEntries(owned)
  owned.clear()
  positions.clear()
  write(event, { partitions })
}

function fail(error) {
  write('failed', { error: String(error) })
  process.exit(1)
}

const kafka = new Kafka({
  brokers: spec.bootstrap.split(','),
  clientId: spec.client_id,
  retry: { initialRetryTime: 50, retries: 10 },
  ...spec.own_settings,
  logLevel: logLevel.DEBUG,
  logCreator: () => entry => {
    const said = entry.log.message
    if (GIVES_UP.some(beginning => said.startsWith(beginning))) letGo('lost')
    if (process.env.DRIVER_LOG === 'DEBUG' || entry.level <= logLevel.WARN) {
      process.stderr.write(`${JSON.stringify(entry)}\n`)
    }
  },
})
const consumer = kafka.consumer({
  groupId: spec.group,
  sessionTimeout: spec.session_timeout_ms,
  rebalanceTimeout: spec.max_poll_interval_ms,
  heartbeatInterval: spec.heartbeat_interval_ms,
  metadataMaxAge: spec.metadata_max_age_ms,
  maxWaitTimeInMs: 100,
})

async function handle({ batch }) {
  if (stallMs > 0) {
    const pause = stallMs
    stallMs = 0
    await new Promise(resolve => setTimeout(resolve, pause)) // and no heartbeat meanwhile
  }
  const offsets = batch.messages.map(message => Number(message.offset))
  write('records', {
    topic: batch.topic,
    partition: batch.partition,
    first: offsets[0],
    last: offsets[offsets.length - 1],
    offsets,
    values: batch.messages.map(message => message.value.toString()),
  })
  if (!positions.has(batch.topic)) positions.set(batch.topic, new Map())
  positions.get(batch.topic).set(batch.partition, offsets[offsets.length - 1] + 1)
}

async function commit(asked) {
  const offsets = asked ?? Object.fromEntries([...positions].map(([topic, of]) => [topic, Object.fromEntries(of)]))
  const flat = Object.entries(offsets).flatMap(([topic, of]) =>
    Object.entries(of).map(([partition, offset]) => ({ topic, partition: Number(partition), offset: String(offset) }))
  )
  try {
    if (flat.length > 0) await consumer.commitOffsets(flat)
    write('committed', { offsets })
  } catch (error) {
    write('commit_failed', { error: String(error), offsets })
  }
}

async function close() {
  write('closing')
  await consumer.disconnect()
  write('closed')
  process.exit(0)
}

async function obey(command) {
  switch (command.command) {
    case 'commit':
      return commit(command.offsets)
    case 'stall':
      stallMs = command.ms
      return undefined
    case 'close':
      return close()
    default:
      throw new Error(`unknown command ${command.command}`)
  }
}

async function main() {
  const commands = readline.createInterface({ input: process.stdin })
  commands.on('line', line => obey(JSON.parse(line)).catch(fail))
  commands.on('close', () => process.exit(2)) // whoever started this process is gone
  write('started', { client: 'kafkajs', version, pid: process.pid })
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => own(payload.memberAssignment))
  consumer.on(consumer.events.REBALANCING, () => letGo('revoked'))
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    if (!payload.restart) fail(payload.error)
  })
  await consumer.connect()
  await consumer.subscribe({ topics: spec.topics, fromBeginning: true })
  await consumer.run({ autoCommit: spec.auto_commit, eachBatch: handle })
}

main().catch(fail)
