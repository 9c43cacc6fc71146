// Questions to the admin API. A failure is a value with a sentence; a missing token locks the console.

import { useCallback, useEffect, useState } from 'preact/hooks'
import { capital } from './format.ts'

/** `error`: the word of the API for it. */
export type Answer<T> =
  | { readonly kind: 'ok'; readonly value: T }
  | { readonly kind: 'failed'; readonly why: string; readonly error: string }

const ANSWER_TIMEOUT_MS = 70_000
const LOCKED = 'sluice-locked'
/** Everything that waits to ask again does so at once. */
export const TRY_NOW = 'sluice-try-now'

/** Called when the API wants a token that this browser has not shown. */
export function onLocked(listener: () => void): () => void {
  addEventListener(LOCKED, listener)
  return () => removeEventListener(LOCKED, listener)
}

export async function ask<T>(path: string, init: RequestInit = {}): Promise<Answer<T>> {
  try {
    const timeout = AbortSignal.timeout(ANSWER_TIMEOUT_MS)
    const signal = init.signal ? AbortSignal.any([init.signal, timeout]) : timeout
    const response = await fetch(path, { ...init, signal })
    if (!response.ok) return { kind: 'failed', ...(await problemOf(response)) }
    return { kind: 'ok', value: (response.status === 204 ? null : readJson(await response.text())) as T }
  } catch {
    return { kind: 'failed', why: 'The node does not answer.', error: '' }
  }
}

interface RawJson {
  rawJSON?: (text: string) => unknown
}

/** Numbers that a double cannot hold stay as the client wrote them, in browsers that can do that. */
export function readJson(text: string): unknown {
  const { rawJSON } = JSON as RawJson
  const keep = (_: string, value: unknown, context?: { source?: string }): unknown =>
    rawJSON !== undefined &&
    typeof value === 'number' &&
    context?.source !== undefined &&
    context.source !== String(value)
      ? rawJSON(context.source)
      : value
  return JSON.parse(text, keep)
}

/** What an answer says that is an error. */
export async function problemOf(response: Response): Promise<{ readonly why: string; readonly error: string }> {
  if (response.status === 401) dispatchEvent(new Event(LOCKED))
  const { message, error } = Object(await response.json().catch(() => null)) as Readonly<Record<string, unknown>>
  const said = typeof message === 'string' && message !== '' ? message : `the node answered ${response.status}`
  return { why: capital(said) + (/[.?!]$/.test(said) ? '' : '.'), error: typeof error === 'string' ? error : '' }
}

export interface Asked<T> {
  readonly value: T | null
  /** Why there is no value, or no newer one. */
  readonly why: string | null
  readonly asking: boolean
  readonly again: () => void
}

/** Asks at once and, with `everyMs`, again and again while the page is seen. A null path asks nothing. */
export function useAsk<T>(path: string | null, everyMs: number | null = null): Asked<T> {
  const [state, setState] = useState<{ path: string | null; value: T | null; why: string | null; asking: boolean }>({
    path: null,
    value: null,
    why: null,
    asking: false,
  })
  const [turn, setTurn] = useState(0)
  useEffect(() => {
    if (path === null) return
    const stopped = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    const run = async (): Promise<void> => {
      if (document.visibilityState === 'visible' || everyMs === null) {
        setState((last) => ({ ...last, asking: true }))
        const answer = await ask<T>(path, { signal: stopped.signal })
        if (stopped.signal.aborted) return
        setState((last) => {
          if (answer.kind === 'ok') return { path, value: answer.value, why: null, asking: false }
          return { path, value: last.path === path ? last.value : null, why: answer.why, asking: false }
        })
      }
      if (everyMs !== null) timer = setTimeout(() => void run(), everyMs)
    }
    void run()
    return () => {
      stopped.abort()
      clearTimeout(timer)
    }
  }, [path, everyMs, turn])
  const again = useCallback(() => setTurn((last) => last + 1), [])
  useEffect(() => {
    addEventListener(TRY_NOW, again)
    return () => removeEventListener(TRY_NOW, again)
  }, [])
  const isOfPath = state.path === path
  return {
    value: isOfPath ? state.value : null,
    why: isOfPath ? state.why : null,
    asking: path !== null && (state.asking || !isOfPath),
    again,
  }
}
