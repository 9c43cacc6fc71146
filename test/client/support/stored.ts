// A client with real timers and files, and what the service has stored of its events.

import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join, resolve } from 'node:path'
import { onTestFinished } from 'vitest'
import { fileStore } from '../../../clients/typescript/src/file.ts'
import { createClient } from '../../../clients/typescript/src/index.ts'
import type { Client, DropReason, Options } from '../../../clients/typescript/src/types.ts'
import { readJournal } from '../../support/journal-files.ts'
import { appRecord, type Service, type ServiceOptions, startService } from '../../support/service.ts'

const PACKAGE = resolve(import.meta.dirname, '../../../clients/typescript')

/** A service that ends with the test. */
export async function start(options: Partial<ServiceOptions> = {}): Promise<Service> {
  const service = await startService({ apps: [appRecord('plain')], ...options })
  onTestFinished(() => service.kill())
  return service
}

export const urlOf = ({ port }: { port: number }): string => `http://127.0.0.1:${port}`

/** A port to come back on. A service that chose its own would leave connections that keep it from doing so. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

export interface Started {
  readonly client: Client
  readonly tracked: string[]
  readonly dropped: { readonly reason: DropReason; readonly ids: string[] }[]
}

/** A client with files in `folder`, closed when the test ends. */
export function startClient(url: string, folder: string, options: Partial<Options> = {}): Started {
  const tracked: string[] = []
  const dropped: Started['dropped'] = []
  const client = createClient({
    url,
    appKey: 'ak_plain',
    store: fileStore(folder),
    ...options,
    beforeSend: (event) => {
      tracked.push(event.event_id)
      return event
    },
    onDropped: (reason, events) => dropped.push({ reason, ids: events.map((event) => event.event_id) }),
  })
  onTestFinished(() => client.close(0))
  return { client, tracked, dropped }
}

export interface StoredEvent {
  readonly event_id: string
  readonly name: string
  readonly timestamp: string
  readonly client_timestamp?: string
}

export function storedEvents(dataDir: string): StoredEvent[] {
  return readJournal(dataDir).flatMap((record) => record.events as unknown as StoredEvent[])
}

export function storedIds(dataDir: string): string[] {
  return storedEvents(dataDir).map((event) => event.event_id)
}

/** Ids of the events in a client's files. */
export function filedIds(folder: string): string[] {
  const files = readdirSync(folder).filter((file) => file.startsWith('b'))
  return files.flatMap((file) =>
    Array.from(readFileSync(join(folder, file), 'utf8').matchAll(/(?<=event_id\\":\\")[0-9a-f-]{36}/g), ([id]) => id),
  )
}

/** Builds the package into a folder, for processes and pages of their own. */
export function buildClient(folder: string): string {
  const built = join(folder, 'built')
  execFileSync(process.execPath, [join(PACKAGE, 'build.js'), built], { stdio: 'pipe' })
  return built
}
