// HTTP by hand over a TCP socket: for what no well-behaved client would send, and for the exact bytes of an answer.

import { connect, type Socket } from 'node:net'
import type { Answer } from './client.ts'

const READ_TIMEOUT_MS = 10_000

export interface RawConnection {
  readonly socket: Socket
  write(data: string | Uint8Array): void
  /** The next whole answer; null where the connection ends first. */
  readAnswer(options?: { readonly head?: boolean; readonly timeoutMs?: number }): Promise<Answer | null>
  /** Resolves when the other side has closed or reset the connection. */
  readonly closed: Promise<void>
  /** Bytes received and not yet read as an answer. */
  unread(): string
  close(): void
}

interface Parsed {
  readonly answer: Answer
  readonly bytes: number
}

function unchunk(data: Buffer): { readonly body: Buffer; readonly bytes: number } | null {
  const pieces: Buffer[] = []
  let at = 0
  for (;;) {
    const lineEnd = data.indexOf('\r\n', at)
    if (lineEnd < 0) return null
    const size = Number.parseInt(data.toString('latin1', at, lineEnd), 16)
    const next = lineEnd + 2 + size + 2
    if (data.length < next) return null
    pieces.push(data.subarray(lineEnd + 2, lineEnd + 2 + size))
    at = next
    if (size === 0) return { body: Buffer.concat(pieces), bytes: at }
  }
}

function toAnswer(status: number, head: string, headers: Record<string, string>, body: Buffer): Answer {
  const text = body.toString()
  let json: Record<string, unknown> = {}
  try {
    json = JSON.parse(text) as Record<string, unknown>
  } catch {
    // Not JSON: the test looks at the text.
  }
  return { status, headers, text, json, whole: `${head}\n${text}` }
}

/** One answer from the start of what has come in; null while it is not whole. */
function parseAnswer(data: Buffer, head: boolean, ended: boolean): Parsed | null {
  const headEnd = data.indexOf('\r\n\r\n')
  if (headEnd < 0) return null
  const headText = data.toString('latin1', 0, headEnd)
  const [statusLine = '', ...lines] = headText.split('\r\n')
  const status = Number(statusLine.split(' ')[1])
  const headers: Record<string, string> = {}
  for (const line of lines) {
    const colon = line.indexOf(':')
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim()
  }
  const rest = data.subarray(headEnd + 4)
  const make = (body: Buffer, bytes: number): Parsed => ({
    answer: toAnswer(status, headText, headers, body),
    bytes: headEnd + 4 + bytes,
  })
  if (head || status < 200 || status === 204) return make(Buffer.alloc(0), 0)
  if (headers['transfer-encoding'] === 'chunked') {
    const chunks = unchunk(rest)
    return chunks ? make(chunks.body, chunks.bytes) : null
  }
  const length = headers['content-length']
  if (length !== undefined) {
    return rest.length >= Number(length) ? make(rest.subarray(0, Number(length)), Number(length)) : null
  }
  return ended ? make(rest, rest.length) : null
}

export function openRaw(port: number): Promise<RawConnection> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  let received: Buffer = Buffer.alloc(0)
  let ended = false
  let wake: () => void = () => {}
  const closed = new Promise<void>((done) => {
    const end = (): void => {
      ended = true
      wake()
      done()
    }
    socket.on('end', end)
    socket.on('close', end)
  })
  socket.on('error', () => {})
  socket.on('data', (piece: Buffer) => {
    received = Buffer.concat([received, piece])
    wake()
  })

  async function readAnswer(options: { head?: boolean; timeoutMs?: number } = {}): Promise<Answer | null> {
    const deadlineMs = Date.now() + (options.timeoutMs ?? READ_TIMEOUT_MS)
    for (;;) {
      const parsed = parseAnswer(received, options.head === true, ended)
      if (parsed) {
        received = received.subarray(parsed.bytes)
        return parsed.answer
      }
      if (ended) return null
      const leftMs = deadlineMs - Date.now()
      if (leftMs <= 0) throw new Error(`no answer in time; so far: ${received.toString('latin1').slice(0, 200)}`)
      await new Promise<void>((done) => {
        const timer = setTimeout(done, leftMs)
        wake = () => {
          clearTimeout(timer)
          done()
        }
      })
    }
  }

  const connection: RawConnection = {
    socket,
    write: (data) => void (socket.destroyed || socket.write(data)),
    readAnswer,
    closed,
    unread: () => received.toString('latin1'),
    close: () => void socket.destroy(),
  }
  return new Promise((done, fail) => {
    socket.once('connect', () => done(connection))
    socket.once('error', fail)
  })
}

/** The head of a POST to the events path, blank line included. */
export function head(lines: readonly string[], requestLine = 'POST /api/v1/events HTTP/1.1'): string {
  return [requestLine, 'Host: sluice.test', ...lines, '', ''].join('\r\n')
}

/** A whole request with its length. */
export function rawPost(body: string, lines: readonly string[] = []): string {
  return head(['Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`, ...lines]) + body
}
