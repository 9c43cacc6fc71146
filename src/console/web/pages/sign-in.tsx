// What is shown where nothing may be: the token or key is asked for once, and kept in a cookie that no script can read.

import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { ask } from '../api.ts'
import { Icon, Mark } from '../parts/icons.tsx'
import { Button, Verdict } from '../parts/ui.tsx'

const AS_TEXT = { type: 'text', autocomplete: 'current-password' } as const
const AS_PASSWORD = { type: 'password', autocomplete: 'current-password' } as const

export function SignIn({ isPortal, onOpened }: { isPortal: boolean; onOpened: () => void }): JSX.Element {
  const [why, setWhy] = useState<string | null>(null)
  const [isAsking, setIsAsking] = useState(false)
  const [isShown, setIsShown] = useState(false)
  const input = useRef<HTMLInputElement>(null)
  const what = isPortal ? 'Read key' : 'Console token'
  useEffect(() => {
    document.title = `Sign in${isPortal ? '' : ' · sluice'}`
    input.current?.focus()
  }, [])
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault()
    const token = input.current?.value.trim() ?? ''
    if (token === '') return setWhy(`Enter the ${what.toLowerCase()} first.`)
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
      <span class="brand row">
        <Mark />
        {isPortal ? 'Event ingestion' : 'sluice'}
      </span>
      <h1 class="reader">Sign in</h1>
      <Verdict more={isPortal ? 'For the developers of one app.' : 'For the people who run this service.'}>
        {isPortal ? "Sign in to see your app's events" : 'Sign in to the console'}
      </Verdict>
      <form class="card" onSubmit={(event) => void submit(event)}>
        <div class="body stack">
          <label for="token">
            <b>{what}</b>
          </label>
          <span class={why === null ? 'field' : 'field fail'}>
            <input
              id="token"
              ref={input}
              {...(isShown ? AS_TEXT : AS_PASSWORD)}
              aria-describedby="token-help"
              aria-invalid={why !== null}
            />
            <Button kind="small bare" text={isShown ? 'Hide' : 'Show'} onClick={() => setIsShown(!isShown)} />
          </span>
          {why !== null && (
            <div class="row said fail t12" role="alert">
              <Icon name="warning" />
              {why}
            </div>
          )}
          <Button type="submit" kind="solid" text="Sign in" disabled={isAsking} />
        </div>
      </form>
      <p id="token-help" class="t12 dim">
        {isPortal ? (
          <>
            A read key begins with <code>rk_</code>. The people who run the service make one for you; it can read, and
            never send.
          </>
        ) : (
          <>
            The token is the value of <code>SLUICE_CONSOLE_TOKEN</code>. Scripts send it as a bearer token.
          </>
        )}
      </p>
    </main>
  )
}

export function Unreachable({ why, onAgain }: { why: string; onAgain: () => void }): JSX.Element {
  return (
    <main class="alone">
      <Mark />
      <div role="alert">
        <h1>{why}</h1>
      </div>
      <Button text="Try again" onClick={onAgain} />
    </main>
  )
}
