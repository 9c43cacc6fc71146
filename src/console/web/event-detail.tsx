// One event in full: formatted, to copy as JSON or as a request to try.

import type { JSX } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { curlOf, type Line } from './event-text.ts'
import { eventUrl } from './route.ts'
import { Copy, Fact, Time, useExample } from './ui.tsx'

export function EventDetail({ line, onClose }: { line: Line; onClose: () => void }): JSX.Element {
  const text = JSON.stringify(line.event, null, 2)
  const { url } = useExample()
  const heading = useRef<HTMLHeadingElement>(null)
  // At once: a row that keeps the focus holds the list.
  useLayoutEffect(() => heading.current?.focus({ preventScroll: true }), [line.id])
  return (
    <aside class="detail" aria-label="The opened event">
      <div class="bar-line">
        <h2 ref={heading} tabIndex={-1}>
          {line.app_id}
        </h2>
        <span class="grow" />
        <Copy text={text} label="copy" />
        <Copy text={curlOf(url, null, line.event)} label="copy as curl" />
        <button type="button" class="button" onClick={onClose}>
          close <kbd>esc</kbd>
        </button>
      </div>
      <dl class="facts">
        <Fact name="received">
          <span>
            <Time at={line.received_at} as="date" /> UTC{line.node !== null && ` at ${line.node}`}
          </span>
        </Fact>
        <Fact name="batch">
          <Copy text={line.batch_id}>{line.batch_id}</Copy>
          <a href={eventUrl(line)}>where is it?</a>
        </Fact>
        <Fact name="SDK">{line.sdk_version}</Fact>
        <Fact name="trace">{line.trace && <Copy text={line.trace}>{line.trace}</Copy>}</Fact>
      </dl>
      <pre tabIndex={0} aria-label="The event as JSON">
        {text}
      </pre>
    </aside>
  )
}
