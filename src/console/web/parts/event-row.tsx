// Lines of events: one of each batch, with its events below.

import type { ComponentChildren, JSX } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import { EVENT_TYPES } from '../../../contract/bounds.ts'
import { type Line, memberText, previewOf, type Shown, systemOf, underBatches } from '../event-text.ts'
import { many } from '../format.ts'
import { useLive } from '../live.tsx'
import { urlTo } from '../route.ts'
import { Rows } from './rows.tsx'
import { Age, AppName, List, PHONE, useMedia, vars } from './ui.tsx'

const COLUMNS = '78px minmax(96px,170px) minmax(0,1fr) minmax(60px,110px)'
export const EVENT_COLUMNS_PHONE = '72px minmax(0,1fr)'
const HEADS = ['Type', 'Name', '-Properties', '->User']

const ROW_PX = 28
const PHONE_ROW_PX = 32
const FADE_MS = 600
const TYPES: ReadonlySet<string> = new Set(EVENT_TYPES)

export function TypePill({ event }: { event: unknown }): JSX.Element {
  const type = memberText(event, 'type')
  return <span class={`pill cut ${TYPES.has(type) ? type : 'plain'}`}>{type === '' ? 'no type' : type}</span>
}

/** The members that tell most, in one line. */
export function Preview({ event }: { event: unknown }): JSX.Element {
  return (
    <span class="cut mono wide">
      {previewOf(event).map(([name, value]) => (
        <span key={name}>
          <span class="dim">{name}=</span>
          {value}{' '}
        </span>
      ))}
    </span>
  )
}

export interface EventRowProps {
  readonly line: Line
  readonly href: string
  readonly isOpen?: boolean
  readonly isFirst?: boolean
}

/** One stop for the tab key: from there on j and k. What has just come fades in, and not again by scrolling. */
export function EventRow({
  line: { event, cameAtMs = 0 },
  href,
  isOpen = false,
  isFirst = false,
}: EventRowProps): JSX.Element {
  const [isNew] = useState(() => Date.now() - cameAtMs < FADE_MS)
  const values = previewOf(event)
    .map(([, value]) => value)
    .join(' ')
  return (
    <a
      class="item event"
      href={href}
      tabIndex={isFirst || isOpen ? 0 : -1}
      aria-current={isOpen || undefined}
      data-new={isNew || undefined}
    >
      <TypePill event={event} />
      <span class="cut">
        <b>{memberText(event, 'name')}</b>
        <span class="narrow mono dim"> {values}</span>
      </span>
      <Preview event={event} />
      <span class="cut dim number wide">{memberText(event, 'user_id') || '–'}</span>
    </a>
  )
}

function BatchLine({ shown: { of: line, events } }: { shown: Shown & { kind: 'batch' } }): JSX.Element {
  const { portal } = useLive()
  const sdk = line.sdk_version === null ? '' : `SDK ${line.sdk_version}`
  return (
    <div class="item batch" style={vars({ columns: 'minmax(0,1fr) auto', phone: 'minmax(0,1fr) auto' })}>
      <span class="row" style={vars({ gap: '10px' })}>
        <span style={{ minWidth: '34px', flex: 'none' }}>
          <Age at={line.received_at} />
        </span>
        {portal === null && (
          <span style={{ flex: 'none', maxWidth: '55%' }}>
            <AppName id={line.app_id} />
          </span>
        )}
        <span class="dim cut">{[sdk, systemOf(line.event)].filter(Boolean).join(' · ')}</span>
      </span>
      <span class="row">
        <span class="dim wide">{many(events, 'event')}</span>
        <a
          class="mono"
          href={urlTo('/batch', { id: line.batch_id })}
          tabIndex={-1}
          title={`The batch ${line.batch_id}`}
        >
          {line.batch_id.slice(0, 8)}…{line.batch_id.slice(-2)}
        </a>
      </span>
    </div>
  )
}

/** `stick`: where its head stays; absent: it does not. */
export function EventList({ stick, children }: { stick?: string; children: ComponentChildren }): JSX.Element {
  return (
    <List columns={COLUMNS} phone={EVENT_COLUMNS_PHONE} heads={HEADS} {...(stick && { stick })}>
      {children}
    </List>
  )
}

interface UnderBatchesProps {
  readonly lines: readonly Line[]
  readonly hrefOf: (line: Line) => string
  /** The id of the one that is opened. */
  readonly opened?: string | null
  readonly stick?: string
}

/** A line of each batch, with its events below. */
export function UnderBatches({ lines, hrefOf, opened, stick = 'var(--top)' }: UnderBatchesProps): JSX.Element {
  const isPhone = useMedia(PHONE)
  const shown = useMemo(() => underBatches(lines), [lines])
  return (
    <EventList stick={stick}>
      <Rows
        items={shown}
        rowHeight={isPhone ? PHONE_ROW_PX : ROW_PX}
        label="Events, newest first"
        keyOf={({ id }) => id}
        render={(one, place) =>
          one.kind === 'batch' ? (
            <BatchLine shown={one} />
          ) : (
            <EventRow line={one.of} href={hrefOf(one.of)} isFirst={place === 1} isOpen={one.id === opened} />
          )
        }
      />
    </EventList>
  )
}
