// A cause of refusals: its title, who has it, and opened beside the list what to change.

import type { JSX } from 'preact'
import { useAsk } from '../api.ts'
import type { Refusal, RefusalGroup, Refusals } from '../api-types.ts'
import { addressOf, causeKey, changeFor, meaningOf, statusOf, titleOf, toneOf } from '../codes.ts'
import { capital, count, many, percent, span, utc } from '../format.ts'
import { useLive } from '../live.tsx'
import { Copy, ShortId, save } from '../parts/controls.tsx'
import { Spark } from '../parts/plot.tsx'
import { Rows } from '../parts/rows.tsx'
import { Age, AppName, Back, Bar, Button, Card, Empty, List, More, Pill, Stat, vars } from '../parts/ui.tsx'
import { urlTo } from '../route.ts'

const MAX_SDKS = 2
const SHOWN_CAUSES = 5
const SHOWN_SHARES = 5
const NOT_NAMED = 'not named'
const RATE_MINUTES = 2
const NEARLY_AN_HOUR_MS = 3_540_000
const NONE: readonly RefusalGroup[] = []

/** Also within a sentence. */
const INLINE = { display: 'inline-block', maxWidth: '100%', verticalAlign: 'bottom' }

export function CauseTitle({ cause }: { cause: RefusalGroup }): JSX.Element {
  const { member, words } = titleOf(cause)
  return (
    <span class="cut" style={INLINE} title={cause.path ?? undefined}>
      {member !== null && <code>{member}</code>}
      {member === null ? words : ` ${words}`}
    </span>
  )
}

/** The app, and the versions of its SDK. */
function CauseWho({ group }: { group: RefusalGroup }): JSX.Element {
  const { portal } = useLive()
  const { app_id: app, origin, reason, sdk_versions: versions } = group
  // A 503 is most often answered before the app is looked up.
  if (reason && app === null) return <span class="t12 dim">any app</span>
  const known = versions.filter((version) => version !== null)
  const more = known.length > MAX_SDKS ? ` and ${known.length - MAX_SDKS} more` : ''
  const sdks = known.length === 0 ? 'SDK not named' : `SDK ${known.slice(0, MAX_SDKS).join(', ')}${more}`
  return (
    <span class="row t12 dim">
      {portal === null && <AppName id={app} />}
      <span class="cut">{origin ?? sdks}</span>
    </span>
  )
}

interface CauseRowProps {
  readonly group: RefusalGroup
  readonly href: string
  readonly isOpen?: boolean
  /** There is no room for its minutes. */
  readonly isNarrow?: boolean
  /** In place of what is wrong. */
  readonly title?: string | undefined
}

export function CauseRow({ group, href, isOpen = false, isNarrow = false, title }: CauseRowProps): JSX.Element {
  return (
    <a class="item" href={href} aria-current={isOpen || undefined}>
      <Pill code={group.code} />
      <span class="stack" style={vars({ gap: 0 })}>
        {title === undefined ? <CauseTitle cause={group} /> : <span class="cut">{title}</span>}
        <CauseWho group={group} />
      </span>
      {!isNarrow && (
        <span class="wide fill">
          <Spark cells={group.per_minute} label="By minute" tone={toneOf(statusOf(group.code))} />
        </span>
      )}
      <span class="number">
        <b>{count(group.count)}</b>
        <br />
        <span class="t12 dim">
          <Age at={group.last_at} />
        </span>
      </span>
    </a>
  )
}

interface MostFrequentProps {
  readonly title: string
  readonly causes: Causes
  /** Of whom alone they are. */
  readonly app?: string | null
  readonly isNarrow?: boolean
}

/** The first causes, on a page that is not theirs; in the portal with what to change rather than what is wrong. */
export function MostFrequent({ title, causes, app = null, isNarrow = false }: MostFrequentProps): JSX.Element {
  const { portal } = useLive()
  const { groups, since } = causes
  const changeOf = (group: RefusalGroup): string | undefined =>
    portal === null ? undefined : changeFor(group, true).split(/[.:] /)[0]
  return (
    <Card title={title} side={<More href={urlTo('/refused', { app })}>All refusals</More>}>
      {groups.length === 0 && <Empty icon="check" title={`Nothing was refused ${since}`} />}
      <List two columns={`40px minmax(0,1fr) ${isNarrow ? '' : '88px'} 64px`} phone="40px minmax(0,1fr) 60px">
        {groups.slice(0, SHOWN_CAUSES).map((group) => (
          <CauseRow
            key={causeKey(group)}
            group={group}
            href={urlTo('/refused', { app, cause: addressOf(group) })}
            isNarrow={isNarrow}
            title={changeOf(group)}
          />
        ))}
      </List>
    </Card>
  )
}

export interface CauseProps {
  readonly group: RefusalGroup
  /** The newest of this cause that are known. */
  readonly refusals: readonly Refusal[]
  /** In the last hour, or since then. */
  readonly since: string
  readonly onClose: () => void
}

export function CausePanel({ group, refusals, since, onClose }: CauseProps): JSX.Element {
  const { portal, nowMs } = useLive()
  const { app_id: app, code, path, count: refused, first_at: firstAt, per_minute: minutes } = group
  const perSecond = minutes.slice(-RATE_MINUTES).reduce((sum, minute) => sum + minute, 0) / (RATE_MINUTES * 60)
  const download = (): void =>
    save('refusals.ndjson', 'application/x-ndjson', refusals.map((one) => `${JSON.stringify(one)}\n`).join(''))
  return (
    <Card
      label="The opened cause"
      title={
        <>
          <Back label="Back to the causes" onClose={onClose} />
          <Pill code={code} />
          <div class="stack grow" style={vars({ gap: 0 })}>
            <h2 class="cut">
              <CauseTitle cause={group} />
            </h2>
            <span class="row t12 dim">
              {portal === null && <AppName id={app} isLink />}
              <span class="cut">{code}</span>
            </span>
          </div>
          <Copy text={location.href} label="Copy link" icon="link" />
          <Button
            kind="small bare wide"
            icon="download"
            text="NDJSON"
            disabled={refusals.length === 0}
            onClick={download}
          />
        </>
      }
    >
      <div class="body stack" style={vars({ gap: 'var(--s4)' })}>
        <div class="row wrap" style={vars({ gap: '12px 32px' })}>
          <Stat name={capital(since)} value={count(refused)} />
          <Stat name="Rate now" value={perSecond < 10 ? perSecond.toFixed(1) : count(perSecond)} unit="/s" />
          <Stat
            name="Since"
            value={utc(firstAt, 'minute')}
            unit={span(Math.max(0, (nowMs - Date.parse(firstAt)) / 1000))}
          />
        </div>
        <div class="stack" style={vars({ gap: 'var(--s2)' })}>
          <h3>What to change</h3>
          <p class="t14">{changeFor(group, portal !== null)}</p>
          <p class="dim">{meaningOf(code)}</p>
          {path !== null && (
            <span>
              <Button kind="small" href={urlTo('/explain', { path, code })} text="Try a body in Explain" />
            </span>
          )}
        </div>
        <div class="grid fold" style={vars({ columns: '1fr 1fr' })}>
          <Shares title="SDK versions" of={refusals.map((one) => one.sdk_version)} known={group.sdk_versions} />
          {path !== null && (
            <Shares title="What was sent, type and length only" of={refusals.map((one) => one.shape ?? 'not known')} />
          )}
        </div>
        {refusals.length > 0 && <Newest refusals={refusals} />}
      </div>
    </Card>
  )
}

interface SharesProps {
  readonly title: string
  /** Of each of the newest refusals. */
  readonly of: readonly (string | null)[]
  /** Of others too. */
  readonly known?: readonly (string | null)[]
}

/** Which texts the newest refusals have, the most frequent first. */
function Shares({ title, of, known = [] }: SharesProps): JSX.Element {
  const counts = new Map(known.map((text) => [text ?? NOT_NAMED, 0]))
  for (const text of of) counts.set(text ?? NOT_NAMED, (counts.get(text ?? NOT_NAMED) ?? 0) + 1)
  const all = [...counts].toSorted(([, one], [, other]) => other - one)
  return (
    <div class="stack" style={vars({ gap: 'var(--s2)' })}>
      <h3>{title}</h3>
      {all.slice(0, SHOWN_SHARES).map(([text, times]) => (
        <div
          key={text}
          class="grid"
          style={vars({
            columns: 'minmax(0,1fr) minmax(0,1fr) 40px',
            phone: 'minmax(0,1fr) 96px 40px',
            align: 'center',
          })}
        >
          <span class="cut" title={text}>
            {text}
          </span>
          <Bar share={of.length === 0 ? 0 : times / of.length} />
          <span class="number">{of.length === 0 ? '' : percent(times / of.length)}</span>
        </div>
      ))}
      {all.length > SHOWN_SHARES && <span class="dim">and {many(all.length - SHOWN_SHARES, 'other')}</span>}
    </div>
  )
}

function Newest({ refusals }: { refusals: readonly Refusal[] }): JSX.Element {
  return (
    <div class="stack" style={vars({ gap: 'var(--s1)' })}>
      <h3>Newest {count(refusals.length)} requests</h3>
      <List
        flush
        columns="48px minmax(0,1fr) 76px 96px"
        phone="44px minmax(0,1fr) 96px"
        heads={['Age', 'What', '-SDK', '>X-Request-Id']}
      >
        <Rows
          items={refusals}
          rowHeight={32}
          label="Refusals of this cause, newest first"
          keyOf={({ request_id: id }) => id}
          render={(refusal) => <RefusalRow refusal={refusal} />}
        />
      </List>
    </div>
  )
}

function RefusalRow({ refusal }: { refusal: Refusal }): JSX.Element {
  const { time, path, message, sdk_version: sdk, request_id: id } = refusal
  return (
    <div class="item">
      <span class="dim">
        <Age at={time} />
      </span>
      <span class="cut" title={message}>
        {path === null ? message : <code>{path}</code>}
      </span>
      <span class="cut dim wide">{sdk}</span>
      <span class="number">
        <ShortId id={id} />
      </span>
    </div>
  )
}

export interface Causes {
  readonly groups: readonly RefusalGroup[]
  /** From when on they are counted, within a sentence. */
  readonly since: string
  readonly isKnown: boolean
  readonly why: string | null
}

/** Those that fit, the most frequent first. A node keeps them for an hour, and begins when it starts. */
export function useCauses(filter: Readonly<Record<string, string | null>>, everyMs: number): Causes {
  const { nowMs } = useLive()
  const { value, why } = useAsk<Refusals>(urlTo('/api/refusals', { ...filter, limit: '1' }), everyMs)
  const isHour = value === null || nowMs - Date.parse(value.since) > NEARLY_AN_HOUR_MS
  const since = isHour ? 'in the last hour' : `since ${utc(value.since, 'minute')} UTC`
  return { groups: value?.groups ?? NONE, since, isKnown: value !== null, why }
}

/** Those of a cause, newest first. */
export function refusalsOf(group: RefusalGroup, refusals: readonly Refusal[]): readonly Refusal[] {
  const key = causeKey(group)
  return refusals.filter((refusal) => causeKey(refusal) === key)
}
