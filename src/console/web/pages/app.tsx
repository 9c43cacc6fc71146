// One app: is it all right, and why not? Its windows, 35 days, causes, keys, alerts and newest events.

import type { JSX } from 'preact'
import { useAsk } from '../api.ts'
import type { AppUsage, ReadKeys, Usage } from '../api-types.ts'
import { count, day, many } from '../format.ts'
import { useLive } from '../live.tsx'
import { Age, AppName, Button, Card, Empty, List, Problem, Verdict } from '../parts/ui.tsx'
import { urlTo } from '../route.ts'
import { nearestOf, windowsOf } from '../windows.ts'
import { SERVED } from './apps.tsx'
import { Figures } from './usage.tsx'

const AGAIN_EVERY_MS = 5000

export function OneApp({ query }: { query: URLSearchParams }): JSX.Element {
  const id = query.get('id') ?? ''
  const asked = useAsk<Usage>(urlTo('/api/apps', { app: id }), AGAIN_EVERY_MS)
  const app = asked.value?.apps.find(({ app_id }) => app_id === id)
  return (
    <div class="page">
      <Problem why={asked.why} />
      {asked.value !== null && app === undefined && (
        <Empty icon="apps" title="There is no such app">
          <p>
            {id === '' ? 'The address names none.' : `None has the id ${id}.`} <code>sluice apps list</code> shows all.
          </p>
          <Button href="/apps" text="All apps" />
        </Empty>
      )}
      {app !== undefined && <Page app={app} />}
    </div>
  )
}

function Page({ app }: { app: AppUsage }): JSX.Element {
  const { app_id: id } = app
  const isActive = app.subscription === 'active'
  return (
    <>
      <div class="row wrap spread">
        <Verdict
          more={
            <span class="row wrap">
              <AppName id={id} />
              <span class="pill plain" title={app.plan}>
                <span class="cut">{app.plan} plan</span>
              </span>
              <span class={`pill ${isActive ? 'ok' : 'plan'}`}>{app.subscription}</span>
              <span>month resets on {day(app.month.resets_at)}</span>
            </span>
          }
        >
          <Sentence app={app} />
        </Verdict>
        <span class="row">
          <Button href={urlTo('/events', { app: id })} text="Events" />
          <Button href={urlTo('/refused', { app: id })} text="Refused" />
          <Button href="/apps" text="All apps" />
        </span>
      </div>
      {app.spooled !== undefined && <SpooledOf spooled={app.spooled} />}
      <Figures usage={app} app={id}>
        <Keys app={app} />
      </Figures>
    </>
  )
}

function SpooledOf({ spooled }: { spooled: NonNullable<AppUsage['spooled']> }): JSX.Element {
  const { events, of_gone_nodes: ofGone } = spooled
  const gone =
    ofGone > 0
      ? ` ${count(ofGone)} of them are of nodes that are gone: no window counts these until they are sent.`
      : ''
  return (
    <p class="said near">
      {`${many(events, 'event')} accepted and kept on disks of nodes, not in the stream yet or not audited.${gone}`}
    </p>
  )
}

function Sentence({ app }: { app: AppUsage }): JSX.Element {
  const { nowMs } = useLive()
  const nearest = nearestOf(windowsOf(app, nowMs))
  const name = app.name ?? app.app_id
  if (!SERVED.has(app.subscription)) {
    return <>{`${name}: nothing is accepted, for the subscription is ${app.subscription}.`}</>
  }
  if (nearest.tone === undefined) return <>{`${name} is within its limits.`}</>
  return <>{`${name}: ${nearest.name} ${nearest.note === '' ? nearest.text : nearest.note}.`}</>
}

function Keys({ app }: { app: AppUsage }): JSX.Element {
  const read = useAsk<ReadKeys>(`/api/apps/${encodeURIComponent(app.app_id)}/read-keys`)
  const readKeys = read.value?.read_keys ?? []
  return (
    <Card title="Keys">
      <List columns="minmax(0,1fr) 64px minmax(0,116px)" heads={['Key', 'For', 'Until, used']}>
        {app.keys.map(({ key, valid_until: until }) => (
          <div class="item" key={key}>
            <code class="cut">{key}</code>
            <span class="pill client">sending</span>
            <span class={until === null ? 'dim cut' : 'cut said near'}>
              {until === null ? 'no end' : `until ${day(until)}`}
            </span>
          </div>
        ))}
        {readKeys.map(({ name, expires_at: until, last_used_at: used }) => (
          <div class="item" key={name}>
            <span class="cut">{name}</span>
            <span class="pill plain">reading</span>
            <span class="dim cut">
              {until !== null ? (
                `until ${day(until)}`
              ) : used === null ? (
                'not used'
              ) : (
                <>
                  used <Age at={used} ago />
                </>
              )}
            </span>
          </div>
        ))}
      </List>
    </Card>
  )
}
