// Reads the stream of a cluster, in order, from the position that the sink has stored. The server keeps a durable
// consumer for us, so that everyone sees how far we are; where it and the sink disagree, the sink is right.

import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { AckPolicy, DeliverPolicy, JetStreamApiCodes, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, credsAuthenticator, nanos } from '@nats-io/transport-node'
import { reasonOf } from './reason.js'

const STREAM = 'SLUICE_EVENTS'
const MAX_CHUNK_MESSAGES = 500
/** Most messages have up to 64 KB, but any app may send some of 600 KB. */
const MAX_CHUNK_BYTES = 16_777_216
/** Asked for at a time; a chunk may be longer by these. The client stalls where it is to ask for a number of bytes. */
const MAX_FETCHED_MESSAGES = 100
/** How long a chunk gathers while less comes: rows are to be seen within seconds. NATS wants at least 1000. */
const GATHER_MS = 1000
const RETRY_MIN_MS = 500
const RETRY_MAX_MS = 5000

/**
 * @typedef {import('./record.js').QueueLine} QueueLine
 *
 * @typedef {object} Position       What the sink stores with its rows.
 * @property {string} source        Of a stream that was deleted and made again, sequences mean something else.
 * @property {bigint} sequence      Of the last message that was read.
 * @property {string} mark          Tells whether that message is still the same one.
 *
 * @typedef {object} Chunk
 * @property {QueueLine[]} lines
 * @property {Position} position    Where the chunk ends.
 * @property {() => void} ack       To be called once the sink has stored it.
 *
 * @typedef {object} Source
 * @property {(position: Position | null, signal: AbortSignal) => AsyncGenerator<Chunk>} read
 * @property {() => Promise<void>} close
 *
 * @typedef {object} StreamOptions
 * @property {string} url           As NATS_URL.
 * @property {string | undefined} credentials  A file.
 * @property {string} consumer      Name of the durable consumer: one for each sink.
 * @property {readonly string[]} subjects  `sluice.events.3`, … Empty: all.
 * @property {string | undefined} from  Where the sink has no position: ISO 8601; absent: from the oldest message.
 * @property {(message: string) => void} log
 */

/**
 * @param {StreamOptions} options
 * @returns {Promise<Source>}
 */
export async function openStream({ url, credentials, consumer: name, subjects, from, log }) {
  const connection = await connect({
    ...addressOf(url),
    name,
    maxReconnectAttempts: -1,
    waitOnFirstConnect: true,
    ...(credentials === undefined ? {} : { authenticator: credsAuthenticator(readFileSync(credentials)) }),
  })

  /**
   * A new consumer behind `position`. What an older one had sent out and got no acknowledgement for would come again,
   * but only after AckWait, behind what follows it; a sink that stores one position must get all in order.
   *
   * @param {Position | null} position
   */
  async function begin(position) {
    const manager = await jetstreamManager(connection)
    const { created, state } = await manager.streams.info(STREAM)
    const source = `${STREAM} ${created}`
    let last = position
    if (last !== null && !(await isStillThere(last))) {
      log(`the stream is not the one that was read up to ${last.sequence}: reading it from its oldest message`)
      last = { source, sequence: 0n, mark: '' }
    }
    if (last !== null && last.sequence > 0n && BigInt(state.first_seq) > last.sequence + 1n) {
      log(`messages ${last.sequence + 1n} to ${state.first_seq - 1} were removed from the stream before they were read`)
    }
    await manager.consumers.delete(STREAM, name).catch((error) => {
      if (error.code !== JetStreamApiCodes.ConsumerNotFound) throw error
    })
    await manager.consumers.add(STREAM, {
      durable_name: name,
      ack_policy: AckPolicy.Explicit,
      ack_wait: nanos(30_000),
      max_ack_pending: 5 * MAX_CHUNK_MESSAGES,
      deliver_policy: DeliverPolicy.StartSequence,
      opt_start_seq: Number(last?.sequence ?? (await sequenceBefore(manager, state.last_seq))) + 1,
      ...(subjects.length === 1 ? { filter_subject: subjects[0] } : {}),
      ...(subjects.length > 1 && takesManyFilters() ? { filter_subjects: [...subjects] } : {}),
    })
    return { consumer: await jetstream(connection).consumers.get(STREAM, name), source, last }

    /** @param {Position} last */
    async function isStillThere(last) {
      if (last.source !== source || last.sequence > BigInt(state.last_seq)) return false
      if (last.sequence === 0n) return true
      const message = await manager.streams.getMessage(STREAM, { seq: Number(last.sequence) })
      // null: it was too old to be kept.
      return message === null || message.time.toISOString() === last.mark
    }
  }

  /**
   * Where the sink has no position. A start by time is asked for without filters: with several of them, NATS leaves out the
   * first message (nats-server issue 6076; seen on 2.15.2 too).
   *
   * @param {import('@nats-io/jetstream').JetStreamManager} manager
   * @param {number} lastSequence
   */
  async function sequenceBefore(manager, lastSequence) {
    if (from === undefined) return 0
    const probe = await manager.consumers.add(STREAM, {
      ack_policy: AckPolicy.None,
      deliver_policy: DeliverPolicy.StartTime,
      opt_start_time: new Date(from).toISOString(),
      inactive_threshold: nanos(5000),
    })
    const consumer = await jetstream(connection).consumers.get(STREAM, probe.name)
    const first = await consumer.next({ expires: 1000 })
    return first === null ? lastSequence : first.seq - 1
  }

  /** @param {import('@nats-io/jetstream').JsMsg} message */
  function isWanted({ subject }) {
    return subjects.length === 0 || subjects.includes(subject)
  }

  /** NATS 2.9 knows one filter only: then all comes, and what is not wanted is left out here. */
  function takesManyFilters() {
    const [major, minor] = (connection.info?.version ?? '').split('.').map(Number)
    return major > 2 || (major === 2 && minor >= 10)
  }

  /**
   * @param {Position | null} position
   * @param {AbortSignal} signal
   * @returns {AsyncGenerator<Chunk>}
   */
  async function* read(position, signal) {
    let last = position
    let pauseMs = RETRY_MIN_MS
    while (!signal.aborted) {
      try {
        const begun = await begin(last)
        last = begun.last
        for (let deliveries = 0; !signal.aborted; ) {
          /** @type {import('@nats-io/jetstream').JsMsg[]} */
          const messages = []
          let isBroken = false
          let bytes = 0
          const beganAtMs = performance.now()
          for (let isMore = true; isMore && !isBroken; ) {
            let fetched = 0
            for await (const message of await begun.consumer.fetch({
              max_messages: MAX_FETCHED_MESSAGES,
              expires: GATHER_MS,
            })) {
              // Each delivery has the next number. If one is missing, its message was sent and did not arrive.
              isBroken ||= message.info.deliverySequence !== (deliveries += 1)
              if (!isBroken) messages.push(message)
              bytes += message.data.length
              fetched += 1
            }
            const hasRoom = messages.length < MAX_CHUNK_MESSAGES && bytes < MAX_CHUNK_BYTES
            isMore = fetched === MAX_FETCHED_MESSAGES && hasRoom && performance.now() - beganAtMs < GATHER_MS
          }
          const final = messages.at(-1)
          if (final !== undefined) {
            last = { source: begun.source, sequence: BigInt(final.seq), mark: final.time.toISOString() }
            pauseMs = RETRY_MIN_MS
          }
          if (last !== null) {
            yield {
              lines: messages.filter(isWanted).flatMap(linesOf),
              position: last,
              ack: () => messages.forEach((message) => message.ack()),
            }
          }
          if (isBroken) throw new Error('a message is missing, or someone else reads under the same name')
        }
      } catch (error) {
        if (signal.aborted) return
        log(`reading the stream again in ${pauseMs} ms: ${reasonOf(error)}`)
        await sleep(pauseMs, undefined, { signal }).catch(() => {})
        pauseMs = Math.min(2 * pauseMs, RETRY_MAX_MS)
      }
    }
  }

  return {
    read,
    // Sends the last acknowledgements.
    close: () => connection.drain().catch(() => {}),
  }
}

/**
 * `nats://user:password@host:4222`, `tls://token@host`, several with commas between: the client takes the parts.
 *
 * @param {string} url
 */
function addressOf(url) {
  const urls = url.split(',').map((part) => new URL(part.includes('://') ? part.trim() : `nats://${part.trim()}`))
  const { username = '', password = '' } = urls.find((each) => each.username !== '') ?? {}
  const [name, secret] = [username, password].map(decodeURIComponent)
  return {
    servers: urls.map(({ host }) => host),
    ...(urls.some(({ protocol }) => protocol === 'tls:') ? { tls: {} } : {}),
    ...(password === '' ? {} : { user: name, pass: secret }),
    ...(password === '' && username !== '' ? { token: name } : {}),
  }
}

/**
 * A message holds one or more records, one a line.
 *
 * @param {import('@nats-io/jetstream').JsMsg} message
 * @returns {QueueLine[]}
 */
function linesOf(message) {
  // It becomes part of a file's name.
  const partition = message.subject.slice(message.subject.lastIndexOf('.') + 1).replace(/[^\w-]/g, '_')
  const texts = Buffer.from(message.data).toString().split('\n')
  return texts.filter((text) => text.trim() !== '').map((text) => ({ partition, sequence: BigInt(message.seq), text }))
}
