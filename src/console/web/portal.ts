// The portal's session, asked again now and then: whether the service is degraded, and whether it answers at all. A read key
// has few requests a minute, so this is not a stream.

import { useEffect, useState } from 'preact/hooks'
import { useAsk } from './api.ts'
import type { PortalSession } from './api-types.ts'
import type { Connection } from './stream.ts'

const AGAIN_EVERY_MS = 15_000

export function usePortal(first: PortalSession): { newest: PortalSession; connection: Connection } {
  const { value, why, asking } = useAsk<PortalSession>('/api/session', AGAIN_EVERY_MS)
  const [connection, setConnection] = useState<Connection>({ kind: 'open' })
  useEffect(() => {
    if (asking) return
    setConnection((last) => {
      if (why === null) return { kind: 'open' }
      // Another reason is the same outage.
      const sinceMs = last.kind === 'lost' ? last.sinceMs : Date.now()
      return { kind: 'lost', sinceMs, retryAtMs: Date.now() + AGAIN_EVERY_MS, why }
    })
  }, [why, asking])
  return { newest: value ?? first, connection }
}
