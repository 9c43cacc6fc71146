// The portal's session, asked again now and then: whether the service is degraded, and whether it answers at all. A read key
// has few requests a minute, so this is not a stream.

import { useEffect, useRef, useState } from 'preact/hooks'
import { useAsk } from './api.ts'
import type { PortalSession } from './api-types.ts'
import type { Connection } from './stream.ts'

const AGAIN_EVERY_MS = 15_000

export function usePortal(first: PortalSession): { newest: PortalSession; connection: Connection } {
  const { value, why } = useAsk<PortalSession>('/api/session', AGAIN_EVERY_MS)
  const [connection, setConnection] = useState<Connection>({ kind: 'open' })
  const sinceMs = useRef(0)
  useEffect(() => {
    if (why === null) return setConnection({ kind: 'open' })
    if (sinceMs.current === 0) sinceMs.current = Date.now()
    setConnection({ kind: 'lost', sinceMs: sinceMs.current, retryAtMs: Date.now() + AGAIN_EVERY_MS, why })
    return () => {
      sinceMs.current = 0
    }
  }, [why])
  return { newest: value ?? first, connection }
}
