// What `nats stream backup` and `nats stream restore` do, by the API of JetStream, since tests cannot count on that program.

import { connect, createInbox, type NatsConnection } from '@nats-io/transport-node'
import { STREAM } from './stream.ts'

const TIMEOUT_MS = 10_000

export interface Backup {
  readonly head: object
  readonly chunks: readonly Uint8Array[]
}

async function withConnection<T>(url: string, work: (connection: NatsConnection) => Promise<T>): Promise<T> {
  const connection = await connect({ servers: url.replace('nats://', ''), timeout: TIMEOUT_MS })
  try {
    return await work(connection)
  } finally {
    await connection.close()
  }
}

async function ask(connection: NatsConnection, subject: string, payload: object | Uint8Array): Promise<any> {
  const bytes = payload instanceof Uint8Array ? payload : Buffer.from(JSON.stringify(payload))
  const { data } = await connection.request(subject, bytes, { timeout: TIMEOUT_MS })
  const reply = data.length === 0 ? {} : JSON.parse(Buffer.from(data).toString())
  if (reply.error !== undefined) throw new Error(`${subject}: ${reply.error.description}`)
  return reply
}

export function backUpStream(url: string): Promise<Backup> {
  return withConnection(url, async (connection) => {
    const deliver_subject = createInbox()
    const chunks: Uint8Array[] = []
    const arriving = connection.subscribe(deliver_subject)
    const { config, state } = await ask(connection, `$JS.API.STREAM.SNAPSHOT.${STREAM}`, { deliver_subject })
    for await (const message of arriving) {
      message.respond()
      if (message.data.length === 0) break
      chunks.push(message.data)
    }
    return { head: { config, state }, chunks }
  })
}

/** Rejects with NATS's words where there is such a stream. */
export function restoreStream(url: string, { head, chunks }: Backup): Promise<void> {
  return withConnection(url, async (connection) => {
    const { deliver_subject } = await ask(connection, `$JS.API.STREAM.RESTORE.${STREAM}`, head)
    for (const chunk of chunks) await ask(connection, deliver_subject, chunk)
    await ask(connection, deliver_subject, new Uint8Array())
  })
}
