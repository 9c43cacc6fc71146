// A batch that is stored: the sentence, the line of time, its events and its record.

import type { JSX } from 'preact'
import type { Found, Place, Reader } from '../api-types.ts'
import type { Tone } from '../codes.ts'
import { linesIn } from '../event-text.ts'
import { count, exactly, many, span, utc } from '../format.ts'
import { useLive } from '../live.tsx'
import { Json } from '../parts/code.tsx'
import { Copy } from '../parts/controls.tsx'
import { EventList, EventRow } from '../parts/event-row.tsx'
import { AppName, Card, Facts, Verdict, vars } from '../parts/ui.tsx'
import { urlWith } from '../route.ts'

/** The sentence above the line of time. */
function summary(found: Found): string {
  const consumers = found.consumers ?? []
  const names = (...states: Reader['state'][]): string[] =>
    consumers.filter(({ state }) => states.includes(state)).map(({ name }) => name)
  const unread = names('waiting', 'delivered')
  const readers = names('acknowledged')
  if (found.place?.kind === 'spool') return 'On the disk of this node, not in the stream yet.'
  if (consumers.length === 0) return 'Stored.'
  if (unread.length === 0 && readers.length === 0) return 'Stored; no consumer wants it.'
  if (unread.length === 0) return `Stored, and read by ${readers.join(', ')}.`
  if (readers.length === 0) return `Stored, and not yet read by ${unread.join(', ')}.`
  return `Stored, read by ${readers.join(', ')}, not yet by ${unread.join(', ')}.`
}

export function Stored({ found, opened }: { found: Found; opened: string | null }): JSX.Element {
  const { portal } = useLive()
  const isJournal = found.place?.kind === 'journal'
  return (
    <>
      <Verdict
        more={`${many(found.events, 'event')}, received at ${utc(found.received_at, 'date')} UTC${
          isJournal ? '. Who has read it is not known: a journal has no consumers' : ''
        }.`}
      >
        {summary(found)}
      </Verdict>
      <Card title="What happened">
        <div class="body">
          <WayOf found={found} />
        </div>
      </Card>
      <div class="grid fold" style={vars({ columns: 'minmax(0,1fr) 380px', align: 'start' })}>
        <Events found={found} opened={opened} />
        <Card title="Record">
          <Facts
            class="body"
            of={{
              Batch: <Copy text={found.batch_id} />,
              Key: found.keyed && 'sent with an Idempotency-Key',
              App: portal === null && <AppName id={found.app_id} isLink />,
              SDK: found.sdk_version,
              Trace: found.trace && <Copy text={found.trace} />,
              Place: found.place && placeWords(found.place),
            }}
          />
        </Card>
      </div>
    </>
  )
}

function placeWords(place: Place): string {
  if (place.kind === 'stream') return `${place.stream} ${count(place.sequence)}, ${place.subject}`
  const spooled = place.kind === 'spool' ? ` in the spool ${place.folder}` : ''
  return `byte ${place.offset_bytes.toLocaleString('en-US')} of ${place.segment}${spooled}`
}

const READ_WORDS: Readonly<Record<Reader['state'], readonly [string, Tone]>> = {
  acknowledged: ['Read', 'ok'],
  delivered: ['Handed over', 'near'],
  waiting: ['Not yet read', 'client'],
  skipped: ['Passed over', 'client'],
  'other subject': ['Not wanted', 'client'],
}

function WayOf({ found }: { found: Found }): JSX.Element {
  const { place, received_at: receivedAt } = found
  const isSpooled = place?.kind === 'spool' || (place?.kind === 'stream' && place.spooled)
  const isWaiting = place?.kind === 'spool'
  return (
    <ol class="way">
      <Stop tone="ok" title="Received" at={receivedAt} more={found.trace ? `trace ${found.trace.slice(3, 11)}` : ''} />
      {isSpooled && (
        <Stop
          tone="ok"
          title="Spooled"
          more={isWaiting ? placeWords(place) : 'on the disk of a node, as NATS took nothing'}
        />
      )}
      <Stop
        tone={isWaiting ? 'near' : 'ok'}
        title={isWaiting ? 'Not yet in the stream' : 'Stored'}
        at={place?.kind === 'stream' ? place.stored_at : null}
        sinceAt={receivedAt}
        more={isWaiting ? 'sent on when NATS takes it' : place && placeWords(place)}
      />
      {found.consumers?.map(({ name, state, read_at: readAt }) => {
        const [words, tone] = READ_WORDS[state]
        return <Stop key={name} tone={tone} title={words} at={readAt} more={name} />
      })}
    </ol>
  )
}

interface StopProps {
  readonly tone: Tone
  readonly title: string
  readonly at?: string | null
  /** How much later than this. */
  readonly sinceAt?: string
  readonly more: string | undefined
}

function Stop({ tone, title, at = null, sinceAt, more }: StopProps): JSX.Element {
  const later = at === null || sinceAt === undefined ? null : (Date.parse(at) - Date.parse(sinceAt)) / 1000
  return (
    <li class={tone}>
      <b>{title}</b>
      {at !== null && (
        <div class="t12 mid">
          <time dateTime={at} title={exactly(at)}>
            {utc(at, 'ms')}
          </time>
          {later !== null && `, +${span(Math.max(0, later))}`}
        </div>
      )}
      <div class="t12 dim">{more}</div>
    </li>
  )
}

function Events({ found, opened }: { found: Found; opened: string | null }) {
  const { record } = found
  return (
    <Card title="Events" side={record && <Copy text={JSON.stringify(record)} label="Copy record" />}>
      <EventList>
        {linesIn(found).map((line) => {
          const isOpen = opened === String(line.index)
          return (
            <div key={line.index}>
              <EventRow
                line={line}
                href={urlWith({ event: isOpen ? null : String(line.index) })}
                isOpen={isOpen}
                isFirst
              />
              {isOpen && (
                <div style={{ padding: '4px var(--pad) 12px' }}>
                  <Json value={line.event} label={`Event ${line.index} as JSON`} />
                </div>
              )}
            </div>
          )
        })}
      </EventList>
    </Card>
  )
}
