// The portal's first page: am I on track? The month and its forecast, what to change, and what comes in.

import type { JSX } from 'preact'
import { useAsk } from '../api.ts'
import type { AppUsage, NewestEvents } from '../api-types.ts'
import { many, percent } from '../format.ts'
import { stateOf, useLive } from '../live.tsx'
import { Needs, TryIt } from '../parts/try-it.tsx'
import { Card, Facts, Problem, Verdict, vars } from '../parts/ui.tsx'
import { nearestOf, type ShownWindow, soldText, untilText, windowsOf } from '../windows.ts'
import { useCauses } from './cause.tsx'
import { Figures } from './usage.tsx'

/** A read key has 60 requests a minute. */
const AGAIN_EVERY_MS = 20_000

export function Overview(): JSX.Element {
  const usage = useAsk<AppUsage>('/api/usage', AGAIN_EVERY_MS)
  const newest = useAsk<NewestEvents>('/api/events?limit=1', AGAIN_EVERY_MS)
  const app = usage.value
  const isNew = app?.month.used === 0 && newest.value?.events.length === 0
  return (
    <div class="page">
      <Problem why={usage.why} />
      {app !== null && (isNew ? <Welcome app={app} /> : <OnTrack app={app} />)}
    </div>
  )
}

function OnTrack({ app }: { app: AppUsage }): JSX.Element {
  return (
    <>
      <Sentence app={app} />
      <Figures usage={app} app={null}>
        <Plan app={app} />
      </Figures>
    </>
  )
}

function Sentence({ app }: { app: AppUsage }): JSX.Element {
  const live = useLive()
  const { groups, since } = useCauses({}, AGAIN_EVERY_MS)
  const refused = groups.reduce((sum, group) => sum + group.count, 0)
  const windows = windowsOf(app, live.nowMs)
  const { tone, word, why } = stateOf(live)
  return (
    <Verdict
      more={
        <>
          {tone === 'ok' ? 'Ingestion is healthy.' : `Ingestion: ${word} ${why}.`}{' '}
          {refused === 0 ? (
            `Nothing was refused ${since}.`
          ) : (
            <>
              <a href="/refused">{many(refused, 'request')}</a> {refused === 1 ? 'was' : 'were'} refused {since}.
            </>
          )}
        </>
      }
    >
      {trackText(windows, live.nowMs)}
    </Verdict>
  )
}

/** On track. 62% of this month is used, about 81% by 1 Dec. */
function trackText(windows: readonly ShownWindow[], nowMs: number): string {
  const nearest = nearestOf(windows)
  const month = windows.find(({ name }) => name === 'month') ?? nearest
  const used = `${percent(month.share ?? 0)} of this month is used`
  const by = `about ${percent(month.ahead)} by ${untilText(month.resetsAt, nowMs)}`
  if (nearest.tone === undefined) return `On track. ${used}${month.ahead > (month.share ?? 0) ? `, ${by}` : ''}.`
  const note = nearest.note || `${percent(nearest.share ?? 0)} used`
  return `This ${nearest.name}: ${note}. ${used}.`
}

function Plan({ app }: { app: AppUsage }): JSX.Element {
  const { nowMs } = useLive()
  return (
    <Card title="Your plan">
      <Facts
        class="body"
        of={{
          Plan: `${app.plan}, ${app.subscription}`,
          ...Object.fromEntries(
            windowsOf(app, nowMs).map((window) => [`Events a ${window.name}`, soldText(window)] as const),
          ),
          Batch: 'at most 100 events and 512 KiB',
        }}
      />
    </Card>
  )
}

function Welcome({ app }: { app: AppUsage }): JSX.Element {
  return (
    <>
      <Verdict more="It shows here soon after it is stored. Until then nothing counts against your plan.">
        Welcome. Send your first event.
      </Verdict>
      <div class="grid fold" style={vars({ columns: 'minmax(0,1fr) 340px', align: 'start' })}>
        <TryIt />
        <div class="stack" style={vars({ gap: 'var(--s4)' })}>
          <Plan app={app} />
          <Needs />
        </div>
      </div>
    </>
  )
}
