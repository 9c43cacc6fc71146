// One event in full: what it is, where it is from, all of it as JSON, and the others of its session that are in the list.

import type { JSX } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { curlOf, type Line, memberText } from '../event-text.ts'
import { count, utc } from '../format.ts'
import { useLive } from '../live.tsx'
import { Json } from '../parts/code.tsx'
import { Copy } from '../parts/controls.tsx'
import { TypePill } from '../parts/event-row.tsx'
import { useExample } from '../parts/try-it.tsx'
import { Age, AppName, Back, Button, Card, Facts, List, useMedia, vars, WIDE } from '../parts/ui.tsx'
import { eventUrl, urlTo, urlWith } from '../route.ts'

const SHOWN = 8

export interface EventPanelProps {
  readonly line: Line
  /** What is in the list. */
  readonly lines: readonly Line[]
  readonly onClose: () => void
}

export function EventPanel({ line, lines, onClose }: EventPanelProps): JSX.Element {
  const { event } = line
  const { url } = useExample()
  const isWide = useMedia(WIDE)
  const heading = useRef<HTMLHeadingElement>(null)
  // At once: a row that keeps the focus holds the list.
  useLayoutEffect(() => heading.current?.focus({ preventScroll: true }), [line.id])
  return (
    <Card
      class="detail scroll"
      label="The opened event"
      title={
        <>
          <Back label="Back to the list" onClose={onClose} />
          <TypePill event={event} />
          <h2 class="cut grow" ref={heading} tabIndex={-1}>
            {memberText(event, 'name') || 'Without a name'}
          </h2>
          {isWide && <Button kind="small bare last" icon="close" aria-label="Close" title="Close" onClick={onClose} />}
          <Copy text={location.href} label="Copy link" icon="link" />
          <Copy text={JSON.stringify(event, null, 2)} label="Copy JSON" />
          <Copy text={curlOf(url, null, event)} label="Copy curl" />
        </>
      }
    >
      <div class="body stack" style={vars({ gap: 'var(--s4)' })}>
        <Origin line={line} lines={lines} />
        <Json value={event} label="The event as JSON" />
        <Session line={line} lines={lines} />
      </div>
    </Card>
  )
}

function Origin({ line, lines }: { line: Line; lines: readonly Line[] }): JSX.Element {
  const { portal } = useLive()
  const { event } = line
  const user = memberText(event, 'user_id')
  const session = memberText(event, 'session_id')
  const ofUser = lines.filter((one) => user !== '' && memberText(one.event, 'user_id') === user).length
  return (
    <Facts
      of={{
        Received: (
          <>
            <Age at={line.received_at} ago />{' '}
            <span class="dim">
              {utc(line.received_at, 'ms')} UTC{line.node && `, at ${line.node}`}
            </span>
          </>
        ),
        App: portal === null && <AppName id={line.app_id} isLink />,
        Batch: (
          <>
            <Copy text={line.batch_id} /> <a href={eventUrl(line)}>Where is it?</a>
          </>
        ),
        User: user !== '' && (
          <>
            <a href={urlTo('/events', { user })}>{user}</a>{' '}
            {ofUser > 1 && <span class="dim">{count(ofUser)} in this list</span>}
          </>
        ),
        Session: session !== '' && <Copy text={session} />,
        SDK: line.sdk_version,
        Trace: line.trace !== undefined && <Copy text={line.trace} />,
      }}
    />
  )
}

function Session({ line, lines }: { line: Line; lines: readonly Line[] }): JSX.Element | null {
  const session = memberText(line.event, 'session_id')
  const others = lines.filter((one) => session !== '' && memberText(one.event, 'session_id') === session)
  if (others.length < 2) return null
  return (
    <div class="stack" style={vars({ gap: 'var(--s1)' })}>
      <h3>This session, in this list</h3>
      <List flush columns="52px 78px minmax(0,1fr)">
        {others.slice(0, SHOWN).map((one) => (
          <a class="item" key={one.id} href={urlWith({ event: one.id })} aria-current={one.id === line.id || undefined}>
            <span class="dim">
              <Age at={one.received_at} />
            </span>
            <TypePill event={one.event} />
            <span class="cut">{memberText(one.event, 'name')}</span>
          </a>
        ))}
      </List>
    </div>
  )
}
