// Server-sent events over fetch, which unlike EventSource says why it failed. A stream that breaks or falls silent is
// opened again, later each time; while the page is hidden there is none.

import { useEffect, useRef, useState } from 'preact/hooks'
import { ask, problemOf, readJson, TRY_NOW } from './api.ts'

/** A break that is over before is not said. */
const SAID_AFTER_MS = 3000

export type Connection =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'open' }
  | { readonly kind: 'lost'; readonly sinceMs: number; readonly retryAtMs: number; readonly why: string }

export type Listener = (name: string, data: unknown) => void

export interface StreamOptions {
  readonly path: string
  readonly onMessage: Listener
  readonly onConnection: (connection: Connection) => void
  /** Longer without a byte means that the connection is dead. */
  readonly silentAfterMs: number
}

/** After the first failure, the second and so on; then always the last. */
const RETRY_MS = [1000, 2000, 5000, 10_000] as const
const OPEN: Connection = { kind: 'open' }
/** A message longer than this is not one of ours. */
const MAX_MESSAGE_LENGTH = 4_194_304

/** What is to be said of it. */
export function said(connection: Connection): Connection {
  const isShort = connection.kind === 'lost' && Date.now() - connection.sinceMs < SAID_AFTER_MS
  return isShort ? OPEN : connection
}

export function tryNow(): void {
  dispatchEvent(new Event(TRY_NOW))
}

/** Returns a function that ends it. */
export function openStream(options: StreamOptions): () => void {
  const ended = new AbortController()
  let failures = 0
  let heardAtMs = Date.now()
  let timer: ReturnType<typeof setTimeout> | undefined
  let isWaiting = false
  const attempt = async (): Promise<void> => {
    isWaiting = false
    const onOpen = (): void => {
      failures = 0
      options.onConnection(OPEN)
    }
    const onHeard = (): void => {
      heardAtMs = Date.now()
    }
    const why = await readOnce(options, ended.signal, { onOpen, onHeard })
    if (ended.signal.aborted) return
    const waitMs = RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]
    failures += 1
    isWaiting = true
    options.onConnection({ kind: 'lost', sinceMs: heardAtMs, retryAtMs: Date.now() + waitMs, why })
    timer = setTimeout(() => void attempt(), waitMs)
  }
  const tryNow = (): void => {
    if (!isWaiting) return
    clearTimeout(timer)
    void attempt()
  }
  addEventListener(TRY_NOW, tryNow)
  options.onConnection({ kind: 'connecting' })
  void attempt()
  return () => {
    removeEventListener(TRY_NOW, tryNow)
    ended.abort()
    clearTimeout(timer)
  }
}

/** Reads until the stream ends, and returns why it did. */
async function readOnce(
  { path, onMessage, silentAfterMs }: StreamOptions,
  ended: AbortSignal,
  { onOpen, onHeard }: { onOpen: () => void; onHeard: () => void },
): Promise<string> {
  const silent = new AbortController()
  let watch: ReturnType<typeof setTimeout> | undefined
  const restartWatch = (): void => {
    clearTimeout(watch)
    watch = setTimeout(() => silent.abort(), silentAfterMs)
  }
  try {
    restartWatch()
    const signal = AbortSignal.any([ended, silent.signal])
    const response = await fetch(path, { signal, headers: { Accept: 'text/event-stream' } })
    if (!response.ok || response.body === null) return (await problemOf(response)).why
    onOpen()
    onHeard()
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
    let text = ''
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return 'The node ended the connection.'
      restartWatch()
      onHeard()
      const messages = (text + value).replaceAll('\r\n', '\n').split('\n\n')
      text = messages.pop() ?? ''
      if (text.length > MAX_MESSAGE_LENGTH) return 'The node sent something that is not a message.'
      for (const message of messages) deliver(message, onMessage)
    }
  } catch {
    return silent.signal.aborted ? 'The node has fallen silent.' : 'The node does not answer.'
  } finally {
    clearTimeout(watch)
    silent.abort()
  }
}

function deliver(message: string, onMessage: Listener): void {
  let name = 'message'
  const data: string[] = []
  for (const line of message.split('\n')) {
    if (line.startsWith('event:')) name = line.slice(6).trim()
    else if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5))
  }
  if (data.length === 0) return
  let value: unknown
  try {
    value = readJson(data.join('\n'))
  } catch {
    // A message that was cut: the next one is whole again.
    return
  }
  onMessage(name, value)
}

/** The stream of a path while the page is seen; null: none. It calls the newest listener. */
export function useStream(path: string | null, onMessage: Listener, silentAfterMs = 40_000): Connection {
  const [connection, setConnection] = useState<Connection>({ kind: 'connecting' })
  const listener = useRef(onMessage)
  listener.current = onMessage
  useEffect(() => {
    if (path === null) return
    let close: (() => void) | null = null
    const update = (): void => {
      const isSeen = document.visibilityState === 'visible'
      if (isSeen && close === null) {
        close = openStream({
          path,
          onMessage: (name, data) => listener.current(name, data),
          onConnection: setConnection,
          silentAfterMs,
        })
      } else if (!isSeen && close !== null) {
        close()
        close = null
      }
    }
    update()
    document.addEventListener('visibilitychange', update)
    return () => {
      document.removeEventListener('visibilitychange', update)
      close?.()
    }
  }, [path, silentAfterMs])
  return connection
}

/**
 * A list and what comes to it. The list is asked for once the stream is open, so that nothing comes between the two, and again
 * after a lost connection. Returns why one of them is not there; null: both are.
 */
export function useLiveList(
  paths: { readonly list: string; readonly stream: string },
  onList: (list: unknown) => void,
  onMessage: Listener,
): string | null {
  const [why, setWhy] = useState<string | null>(null)
  const connection = useStream(paths.stream, onMessage)
  useEffect(() => {
    if (connection.kind !== 'open') return
    const stopped = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    const load = async (): Promise<void> => {
      const answer = await ask(paths.list, { signal: stopped.signal })
      if (stopped.signal.aborted) return
      setWhy(answer.kind === 'ok' ? null : answer.why)
      if (answer.kind === 'ok') onList(answer.value)
      else timer = setTimeout(() => void load(), RETRY_MS[0])
    }
    void load()
    return () => {
      stopped.abort()
      clearTimeout(timer)
    }
  }, [paths.list, connection.kind])
  const shown = said(connection)
  return shown.kind === 'lost' ? shown.why : why
}
