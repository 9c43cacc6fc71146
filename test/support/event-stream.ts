// Reads server-sent events as a browser does.

import { type IncomingHttpHeaders, request } from 'node:http'

export interface ReceivedEvent {
  readonly event: string
  readonly data: Record<string, unknown>
  /** Absent: the message has none. */
  readonly id?: string
}

export interface EventStream {
  readonly headers: IncomingHttpHeaders
  /** All that has come so far. */
  readonly text: string
  readonly events: readonly ReceivedEvent[]
  readonly isEnded: boolean
  close(): void
}

/** Rejects where the answer is not a stream. */
export function openEventStream(
  port: number,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<EventStream> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ host: '127.0.0.1', port, path, headers, agent: false }, (response) => {
      if (response.statusCode !== 200) {
        response.resume()
        reject(new Error(`${path} answered ${response.statusCode}`))
        return
      }
      let text = ''
      let isEnded = false
      response.setEncoding('utf8').on('data', (piece: string) => {
        text += piece
      })
      response.on('close', () => {
        isEnded = true
      })
      response.on('error', () => {})
      resolve({
        headers: response.headers,
        get text() {
          return text
        },
        get events() {
          return eventsIn(text)
        },
        get isEnded() {
          return isEnded
        },
        close: () => outgoing.destroy(),
      })
    })
    outgoing.on('error', reject)
    outgoing.end()
  })
}

function eventsIn(text: string): ReceivedEvent[] {
  return text
    .split('\n\n')
    .slice(0, -1)
    .flatMap((block) => {
      const [, event, text, id] = /^event: (.*)\ndata: (.*)(?:\nid: (.*))?$/.exec(block) ?? []
      if (event === undefined || text === undefined) return []
      const data = JSON.parse(text) as Record<string, unknown>
      return [id === undefined ? { event, data } : { event, data, id }]
    })
}
