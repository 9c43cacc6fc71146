// The token is asked for once: the node keeps it in a cookie that no script can read.

import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { ask } from './api.ts'

export function TokenForm({ onOpened }: { onOpened: () => void }): JSX.Element {
  const [why, setWhy] = useState<string | null>(null)
  const [isAsking, setIsAsking] = useState(false)
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => {
    document.title = 'Token · sluice'
    input.current?.focus()
  }, [])
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault()
    const token = input.current?.value.trim() ?? ''
    if (token === '') return setWhy('Enter the token first.')
    setIsAsking(true)
    const answer = await ask('/api/session', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ token }),
    })
    setIsAsking(false)
    if (answer.kind === 'ok') return onOpened()
    setWhy(answer.why)
    input.current?.select()
  }
  return (
    <main class="alone">
      <h1>sluice</h1>
      <form onSubmit={(event) => void submit(event)}>
        <label for="token">Token of the console</label>
        <div class="line">
          <input
            id="token"
            ref={input}
            type="password"
            autocomplete="current-password"
            aria-describedby="token-help"
            aria-invalid={why !== null}
          />
          <button type="submit" class="button primary" disabled={isAsking}>
            Open
          </button>
        </div>
        <p class="problem" role="alert">
          {why}
        </p>
        <p id="token-help" class="muted">
          It is the value of the setting <code>SLUICE_CONSOLE_TOKEN</code>. This browser keeps it for twelve hours.
        </p>
      </form>
    </main>
  )
}
