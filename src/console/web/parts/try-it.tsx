// How to send a first event, with the real address and, on a first start, the real key; and that it has come.

import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { useAsk } from '../api.ts'
import type { Example } from '../api-types.ts'
import { curlOf } from '../event-text.ts'
import { useLive } from '../live.tsx'
import { coloured } from './code.tsx'
import { Copy, Tabs } from './controls.tsx'
import { Card, Dot, Empty, Facts, vars } from './ui.tsx'

const LANGUAGES = ['curl', 'TypeScript', 'Python'] as const
type Language = (typeof LANGUAGES)[number]
const LANGUAGE = 'sluice-language'

/** Where to send an event, by the name under which this page was reached, and with which key. */
export function useExample(): { readonly url: string; readonly key: string | null } {
  const { portal } = useLive()
  const asked = useAsk<Example>(portal === null ? '/api/example' : null)
  // The portal is reached under another name than the port of events.
  if (portal !== null) return { url: 'https://events.example.com', key: null }
  const { port = 8080, tls = false, app_key: key = null } = asked.value ?? {}
  return { url: `${tls ? 'https' : 'http'}://${location.hostname}:${port}`, key }
}

const EVENT = {
  type: 'track',
  name: 'signed_up',
  hashed_daily_id: 'demo-daily-0123456789',
  hashed_monthly_id: 'demo-monthly-0123456789',
  session_id: 'demo',
  timestamp: 'NOW',
  context: { os: 'demo' },
  properties: { plan: 'yearly' },
}

function snippet(language: Language, url: string, key: string): string {
  if (language === 'curl') return curlOf(url, key, EVENT).replace('NOW', `'"$(date -u +%Y-%m-%dT%H:%M:%SZ)"'`)
  if (language === 'TypeScript') {
    return `import { createClient } from 'sluice-client'

const client = createClient({
  url: '${url}',
  appKey: '${key}',
})
client.track('signed_up', { plan: 'yearly' })
await client.flush()`
  }
  return `import datetime, json, urllib.request

now = datetime.datetime.now(datetime.timezone.utc).isoformat()
body = {"app_key": "${key}", "events": [{
    "type": "track", "name": "signed_up", "timestamp": now,
    "hashed_daily_id": "demo-daily-0123456789",
    "hashed_monthly_id": "demo-monthly-0123456789",
    "session_id": "demo", "context": {"os": "demo"},
    "properties": {"plan": "yearly"}}]}
urllib.request.urlopen(urllib.request.Request(
    "${url}/api/v1/events",
    json.dumps(body).encode(), {"Content-Type": "application/json"}))`
}

export function TryIt(): JSX.Element {
  const { portal } = useLive()
  const { url, key } = useExample()
  const [language, setLanguage] = useState<Language>(
    () => LANGUAGES.find((one) => one === localStorage.getItem(LANGUAGE)) ?? 'curl',
  )
  const pick = (wanted: Language): void => {
    localStorage.setItem(LANGUAGE, wanted)
    setLanguage(wanted)
  }
  const text = snippet(language, url, key ?? 'YOUR_APP_KEY')
  return (
    <Card title={key === null ? 'Send an event' : 'Send one with the demo key'}>
      <div class="body stack">
        <div class="code">
          <header class="row spread">
            <Tabs
              label="Language"
              value={language}
              options={LANGUAGES.map((one) => [one, one] as const)}
              onPick={pick}
            />
            <Copy text={text} label="Copy" />
          </header>
          <pre class="sample" tabIndex={0} aria-label={`An event, sent with ${language}`}>
            {coloured(text)}
          </pre>
        </div>
        <div class="row wrap spread">
          <span class="row">
            <Dot tone="ok" live />
            Waiting for the first event…
          </span>
          {key === null && (
            <span class="dim">
              {portal === null ? (
                <>
                  Put in the key of an app: <code>sluice apps list</code> shows them
                </>
              ) : (
                'Put in the address and your own app key: a read key cannot send'
              )}
            </span>
          )}
        </div>
      </div>
    </Card>
  )
}

export function Needs(): JSX.Element {
  return (
    <Card title="What an event needs">
      <Facts
        class="body"
        of={{
          hashed_daily_id: 'Your user or device id, hashed with a salt that changes each day',
          hashed_monthly_id: 'The same, with a salt that changes each month',
          session_id: 'An id that you make when a visit starts',
          'context.os': 'Where it runs. A backend sends its own, such as Linux',
        }}
      />
    </Card>
  )
}

/** The page of events before there is one. */
export function FirstEvent(): JSX.Element {
  return (
    <div class="grid fold" style={vars({ columns: 'minmax(0,1fr) minmax(0,1fr)' })}>
      <Card>
        <Empty icon="events" title="No event is stored yet">
          <p>The newest 200 are shown when you open this page, then each one as it comes.</p>
        </Empty>
      </Card>
      <div class="stack" style={vars({ gap: 'var(--s4)' })}>
        <TryIt />
        <Needs />
      </div>
    </div>
  )
}
