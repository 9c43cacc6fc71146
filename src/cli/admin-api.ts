// Asks the API of the running service, on its admin port.

import { type IncomingMessage, request } from 'node:http'
import type { Of } from '../contract/admin/schema.ts'
import { Check, type TSchema } from '../contract/admin/typebox.ts'
import { type AdminAddress, hostAndPort, readAdminAddress } from '../lib/admin-address.ts'
import { errorCode, orStartError, StartError } from '../lib/errors.ts'
import { RecordsAway } from '../records/bucket-records.ts'
import type { Config } from '../settings/config.ts'

/** The service says something on a stream every 15 s, so that this long a silence is a lost connection. */
const SILENCE_MS = 45_000
/** The longest answer has 1,000 refusals and their groups. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024
const CONSOLE_TIMEOUT_MS = 2000
const MAX_EVENT_CHARACTERS = 1024 * 1024
/** The service writes an event as one `event` line, one `data` line and an empty one. U+2028 ends no line here. */
const EVENT = /^event: ([^\n]*)\ndata: ([^\n]*)/m

/** The service does not answer for now: asking again may help. */
export class ServiceAway extends StartError {}

type Place = Pick<Config, 'adminHost' | 'adminPort' | 'adminPortNamed' | 'consoleToken' | 'dataDirectory' | 'embedded'>

/** `body`: of a POST. Resolves with a 200. Throws a ServiceAway, or a StartError where asking again would not help. */
export async function askAdmin(
  place: Place,
  path: string,
  signal: AbortSignal,
  body?: string | Buffer,
): Promise<IncomingMessage> {
  const { consoleToken } = place
  const { host, port } = await addressOf(place)
  // A name that it answers to by whatever address it is reached: the check of the Host is against pages of the web.
  const headers = { Host: 'localhost', ...(consoleToken === null ? {} : { Authorization: `Bearer ${consoleToken}` }) }
  const response = await new Promise<IncomingMessage>((done, fail) => {
    const method = body === undefined ? 'GET' : 'POST'
    const asked = request({ host, port, path, method, headers, signal, timeout: SILENCE_MS }, done)
    asked.on('timeout', () => asked.destroy())
    asked.on('error', (error) => fail(new ServiceAway(awayText(host, port, error))))
    asked.end(body)
  })
  const { statusCode } = response
  if (statusCode === 200) return response
  response.resume()
  throw refusal(`the service at ${host}:${port}`, statusCode ?? 0)
}

/** What the stores say; where NATS does not give the app records, what the running service says, which goes on with those that it has. */
export async function orService<T>(
  ofStores: Promise<T>,
  ofService: () => Promise<T>,
  tell: (message: string) => Promise<void>,
): Promise<T> {
  try {
    return await ofStores
  } catch (away) {
    if (!(away instanceof RecordsAway)) throw away
    const said = await ofService().catch((error: unknown) => {
      throw error instanceof StartError ? new StartError(`${away.message}; ${error.message}`) : error
    })
    await tell(`${away.message}: this is what the running service says`)
    return said
  }
}

/** Throws a StartError where it is not JSON of this form. */
export function answerIn<Schema extends TSchema>(json: string, schema: Schema): Of<Schema> {
  const value: unknown = objectIn(json)
  if (!Check(schema, value)) throw new StartError('what the service answered has the form of another version')
  return value as Of<Schema>
}

/** The list in an answer. Throws as `askAdmin`, and a StartError where there is none. */
export async function askForList(
  place: Place,
  path: string,
  member: 'apps' | 'refusals',
  signal: AbortSignal,
): Promise<readonly unknown[]> {
  return listIn(await textIn(await askAdmin(place, path, signal)), member)
}

export function listIn(json: string, member: string): readonly unknown[] {
  const { [member]: list } = objectIn(json)
  if (!Array.isArray(list)) throw new StartError(`what the service answered is not a list of ${member}`)
  return list
}

/** Throws a StartError where it is not JSON. */
export function objectIn(json: string): Readonly<Record<string, unknown>> {
  const value: unknown = orStartError(() => JSON.parse(json), 'what the service sent is not JSON: ')
  return Object(value) as Readonly<Record<string, unknown>>
}

export interface StreamEvent {
  readonly name: string
  readonly data: string
}

/** The events of a stream of server-sent events. Throws a ServiceAway where it breaks. */
export async function* eventsIn(response: IncomingMessage): AsyncGenerator<StreamEvent> {
  let rest = ''
  for await (const piece of textOf(response)) {
    const blocks = `${rest}${piece}`.split('\n\n')
    rest = blocks.pop() ?? ''
    if (rest.length > MAX_EVENT_CHARACTERS) throw new StartError('what the service sends is not a stream of events')
    for (const block of blocks) {
      const [, name, data] = EVENT.exec(block) ?? []
      if (name !== undefined) yield { name, data }
    }
  }
}

export async function textIn(response: IncomingMessage): Promise<string> {
  const pieces: string[] = []
  let characters = 0
  for await (const piece of textOf(response)) {
    characters += piece.length
    if (characters > MAX_ANSWER_BYTES) throw new StartError('the answer of the service is too long')
    pieces.push(piece)
  }
  return pieces.join('')
}

async function* textOf(response: IncomingMessage): AsyncGenerator<string> {
  response.setEncoding('utf8')
  try {
    for await (const piece of response) yield piece as string
  } catch (error) {
    throw error instanceof StartError ? error : new ServiceAway('the connection to the service broke')
  }
}

/** Of the service on this machine; null: none answers, or its console is off. */
export async function consoleUrl(place: Place): Promise<string | null> {
  try {
    const { headers } = (await askAdmin(place, '/', AbortSignal.timeout(CONSOLE_TIMEOUT_MS))).resume()
    const { host, port } = await addressOf(place)
    return headers['content-type']?.startsWith('text/html') === true ? `http://${hostAndPort(host, port)}` : null
  } catch (error) {
    if (error instanceof StartError) return null
    throw error
  }
}

/** Where SLUICE_ADMIN_PORT says, or else the service on the data folder. A cluster's nodes have no folder. */
async function addressOf(place: Place): Promise<AdminAddress> {
  const { adminHost, adminPort, adminPortNamed, dataDirectory, embedded } = place
  const isKnown = adminPortNamed && adminPort !== 0
  const written = embedded && !isKnown ? await readAdminAddress(dataDirectory) : null
  // Not at the port's default: a service of another folder may be there.
  if (embedded && !isKnown && written === null)
    throw new ServiceAway(
      `no service works on ${dataDirectory}, as far as this user can see: set SLUICE_DATA_DIR to its folder, or SLUICE_ADMIN_PORT to the admin_port that it logged`,
    )
  const { host, port } = written ?? { host: adminHost, port: adminPort }
  if (port === 0) throw new ServiceAway('SLUICE_ADMIN_PORT is 0: set it to the admin_port that the service logged')
  // An address of all interfaces is reached over the loopback one.
  return { host: host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host, port }
}

function awayText(host: string, port: number, error: Error): string {
  const code = errorCode(error) ?? 'no answer'
  return `no service answers at ${host}:${port} (${code}): is it running, with this SLUICE_DATA_DIR, or these SLUICE_ADMIN_HOST and SLUICE_ADMIN_PORT?`
}

function refusal(service: string, status: number): StartError {
  switch (status) {
    case 401:
      return new StartError(`${service} wants its token: set SLUICE_CONSOLE_TOKEN here as it is set there`)
    case 403:
      return new StartError(`${service} has its console off: start it with SLUICE_CONSOLE_TOKEN set, which opens it`)
    case 404:
      return new StartError(`${service} has no such API: it is an older sluice, or another program`)
    default:
      return new ServiceAway(`${service} answered ${status}`)
  }
}
