// One event in full: formatted, to copy as JSON or as a request to try.

import type { JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { curlOf, type Line } from './event-text.ts'
import { urlTo } from './route.ts'
import { Copy, Time } from './ui.tsx'

export function EventDetail({ line, onClose }: { line: Line; onClose: () => void }): JSX.Element {
  const text = JSON.stringify(line.event, null, 2)
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => heading.current?.focus({ preventScroll: true }), [line.id])
  return (
    <aside class="detail" aria-label="The opened event">
      <div class="bar-line">
        <h2 ref={heading} tabIndex={-1}>
          {line.app_id}
        </h2>
        <span class="grow" />
        <Copy text={text} label="copy" />
        <Copy text={curlOf(line.event)} label="copy as curl" />
        <button type="button" class="button" onClick={onClose}>
          close <kbd>esc</kbd>
        </button>
      </div>
      <dl class="facts">
        <dt>received</dt>
        <dd>
          <span>
            <Time at={line.received_at} as="date" /> UTC at {line.node}
          </span>
        </dd>
        <dt>batch</dt>
        <dd>
          <Copy text={line.batch_id}>{line.batch_id}</Copy>
          <a href={urlTo('/batch', { id: line.batch_id })}>where is it?</a>
        </dd>
        {line.sdk_version && (
          <>
            <dt>SDK</dt>
            <dd>{line.sdk_version}</dd>
          </>
        )}
        {line.trace !== undefined && (
          <>
            <dt>trace</dt>
            <dd>
              <Copy text={line.trace}>{line.trace}</Copy>
            </dd>
          </>
        )}
      </dl>
      <pre tabIndex={0} aria-label="The event as JSON">
        {text}
      </pre>
    </aside>
  )
}
