// The part of `sluice check` that tests Redis and NATS. It only reads, but for an empty message where the stream alone can say
// whether it refuses.

import { type BucketRecords, readRecords } from '../../apps/bucket/bucket-edit.ts'
import { FOREIGN_KEY, ownershipText } from '../../installation/owner.ts'
import { errorMessage } from '../../lib/errors.ts'
import { systemTimers } from '../../lib/timers.ts'
import { isOlderVersion } from '../../lib/version.ts'
import { Bucket } from '../../nats/bucket.ts'
import { connectNats } from '../../nats/connection.ts'
import type { Durability } from '../../nats/durability.ts'
import { learnDurability } from '../../nats/durability-watch.ts'
import { type KnownServers, type ServerStorage, storageOf } from '../../nats/server-facts.ts'
import { APPS_BUCKET, EVENTS_STREAM } from '../../nats/store-names.ts'
import { askAck } from '../../queue/stream/probe.ts'
import { readAccountLimit, serverLimitOf } from '../../queue/stream/storage-limit.ts'
import { describeStream, MAX_RECORD_BYTES, type StreamReport } from '../../queue/stream/stream.ts'
import { FOREIGN, isForeignBucket } from '../../records/bucket-records.ts'
import { withRedis } from '../../records/redis.ts'
import { describeRedis, type RedisFacts, type RedisNode } from '../../redis/facts.ts'
import { listOf, text } from '../../redis/reply.ts'
import type { Config } from '../../settings/config.ts'
import { formatBytes, formatCount } from '../table.ts'
import { presentStreamFinding, refusalBy, type StreamLimits, type StreamWish } from './check-stream.ts'
import { type Finding, finding, findingWith } from './finding.ts'

/** For all questions to one of them. */
const PROBE_TIMEOUT_MS = 8000
/** Invalid app records that are listed. */
const MAX_COMPLAINTS = 20
const NO_LIMITS: StreamLimits = { limits: [], refused: null }
const OLDEST_REDIS = '6.2'
const OLDEST_NATS = '2.9'

/** At the same time, so that the timeouts do not add up. */
export async function sharedFindings(config: Config, nowMs: number): Promise<Finding[]> {
  return (await Promise.all([redisFindings(config), natsFindings(config, nowMs)])).flat()
}

async function redisFindings({ redis: redisAccess }: Config): Promise<Finding[]> {
  if (redisAccess === null) return []
  return await inTime('redis', 'Redis', () =>
    withRedis(redisAccess, async (redis) => [
      redisFinding(redis.place, await redis.ask(describeRedis)),
      ...installationFindings(
        await redis.ask((link) => link.call((client) => client.zrange(FOREIGN_KEY, '0', '-1'), listOf(text))),
      ),
    ]),
  )
}

/** What nodes of another installation on this Redis have said of themselves. */
function installationFindings(foreign: readonly string[] | 'away'): Finding[] {
  if (foreign === 'away' || foreign.length === 0) return []
  return [finding('installations', 'FAIL', ownershipText('shared'))]
}

async function natsFindings(config: Config, nowMs: number): Promise<Finding[]> {
  const {
    nats,
    natsMonitorUrls,
    requireSync,
    appsFile,
    stream: { replicas },
  } = config
  if (nats === null) return []
  return await inTime('nats', 'NATS', async () => {
    const connection = await connectNats(nats)
    try {
      const report = await describeStream(connection)
      const { version = 'unknown', max_payload: maxPayloadBytes = 0 } = connection.info ?? {}
      const known: KnownServers = new Map()
      const { events, durability } = await learnDurability(connection, natsMonitorUrls, known)
      const servers = typeof events === 'string' ? [] : storageOf(events.replicas, known)
      const isAlone = connection.info?.cluster === undefined
      const stream =
        report.kind === 'absent' && replicas > 1 && isAlone
          ? tooFewServers(replicas)
          : streamFinding(report, { replicas, nowMs }, await limitsOf(connection, report, servers, replicas))
      const apps = appsFile === null ? [await appsFinding(new Bucket(connection, APPS_BUCKET), config)] : []
      return [
        natsFinding({ place: connection.getServer(), version, maxPayloadBytes }),
        stream,
        ...(durability === null ? [] : [durabilityFinding(durability, requireSync)]),
        ...apps,
      ]
    } finally {
      await connection.close()
    }
  })
}

async function limitsOf(
  connection: Awaited<ReturnType<typeof connectNats>>,
  report: StreamReport,
  servers: readonly ServerStorage[],
  wanted: number,
): Promise<StreamLimits> {
  const replicas = report.kind === 'present' ? report.facts.replicas : wanted
  const account = await readAccountLimit(connection, replicas)
  const limits = [...(account === null ? [] : [account]), ...servers.map(serverLimitOf)]
  // Only an answer of the stream shows a limit that a server does not.
  const isAsked = report.kind === 'present' && servers.length < replicas
  const ack = isAsked ? await askAck(connection) : null
  return { limits, refused: ack?.kind === 'refused' ? ack.reason : null }
}

export function redisFinding(place: string, { isCluster, nodes }: RedisFacts): Finding {
  const kind = isCluster ? `cluster of ${nodes?.length ?? 'some'} masters` : 'one server'
  if (nodes === null) {
    return finding('redis', 'warn', `${place}: ${kind}; its user may not run INFO, so that its settings are not known`)
  }
  const versions = [...new Set(nodes.map(({ version }) => version))].join(' and ')
  const complaints = new Set(nodes.flatMap(complaintsOf))
  return findingWith('redis', `${place}: Redis ${versions}, ${kind}`, [...complaints])
}

function complaintsOf({ version, evictionPolicy }: RedisNode): string[] {
  const complaints: string[] = []
  if (isOlderVersion(version, OLDEST_REDIS)) complaints.push(`Redis ${version} is older than ${OLDEST_REDIS}`)
  if (evictionPolicy !== 'noeviction') {
    complaints.push(
      `maxmemory-policy is ${evictionPolicy}, sluice wants noeviction: evicted counters have to be rebuilt`,
    )
  }
  return complaints
}

async function appsFinding(bucket: Bucket, config: Config): Promise<Finding> {
  try {
    if (await isForeignBucket(bucket, config)) return finding('apps', 'FAIL', FOREIGN)
    return appsFindingOf(await readRecords(bucket, systemTimers))
  } catch (error) {
    return finding('apps', 'FAIL', errorMessage(error))
  }
}

export function appsFindingOf({ records, complaints }: Pick<BucketRecords, 'records' | 'complaints'>): Finding {
  const detail =
    records.length === 0
      ? `none in ${APPS_BUCKET} yet: sluice apps add makes one`
      : `${formatCount(records.length)} in ${APPS_BUCKET}`
  if (complaints.length === 0) return finding('apps', 'ok', detail)
  const named = complaints.slice(0, MAX_COMPLAINTS)
  const more = complaints.length > named.length ? [`and ${complaints.length - named.length} more`] : []
  return finding('apps', 'FAIL', [detail, ...named, ...more].join('; '))
}

interface ServerFacts {
  readonly place: string
  readonly version: string
  readonly maxPayloadBytes: number
}

export function natsFinding({ place, version, maxPayloadBytes }: ServerFacts): Finding {
  const detail = `${place}: nats-server ${version}, max_payload ${formatBytes(maxPayloadBytes)}`
  if (maxPayloadBytes < MAX_RECORD_BYTES) {
    return finding('nats', 'FAIL', `${detail}; a record may need ${formatBytes(MAX_RECORD_BYTES)}, and is answered 503`)
  }
  return findingWith('nats', detail, isOlderVersion(version, OLDEST_NATS) ? [`older than ${OLDEST_NATS}`] : [])
}

export function durabilityFinding({ line, isWarning, isSynced }: Durability, requireSync: boolean): Finding {
  const detail = `a 202 survives ${line}`
  if (!requireSync || isSynced) return finding('durability', isWarning ? 'warn' : 'ok', detail)
  return finding('durability', 'FAIL', `${detail}; SLUICE_REQUIRE_SYNC is true: a node would not become ready`)
}

function tooFewServers(replicas: number): Finding {
  return finding(
    'stream',
    'FAIL',
    `no ${EVENTS_STREAM} yet, and it cannot be created: SLUICE_STREAM_REPLICAS is ${replicas}, and this NATS server is in no cluster`,
  )
}

export function streamFinding(report: StreamReport, wish: StreamWish, limits = NO_LIMITS): Finding {
  switch (report.kind) {
    case 'present':
      return presentStreamFinding(report.facts, wish, limits)
    case 'absent': {
      const refusal = refusalBy(limits)
      if (refusal !== null) return finding('stream', 'FAIL', `no ${EVENTS_STREAM} yet, and ${refusal}`)
      return finding('stream', 'ok', `no ${EVENTS_STREAM} yet: the first start creates it`)
    }
    case 'unreadable':
      return finding('stream', 'FAIL', `${EVENTS_STREAM} cannot be read: ${report.reason}`)
  }
}

/** Turns an error, or a missing answer, into a finding. */
async function inTime(part: string, name: string, probe: () => Promise<Finding[]>): Promise<Finding[]> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<Finding[]>((resolve) => {
    const detail = `${name} gave no answer in ${PROBE_TIMEOUT_MS / 1000} s`
    timer = setTimeout(() => resolve([finding(part, 'FAIL', detail)]), PROBE_TIMEOUT_MS)
  })
  const found = probe().catch((error: unknown) => [finding(part, 'FAIL', errorMessage(error))])
  return await Promise.race([found, late]).finally(() => clearTimeout(timer))
}
