// The portal's own listener.

import type { Portal } from '../console/portal.ts'
import { PORTAL_MAX_CONNECTIONS } from '../contract/bounds.ts'
import { startPages } from '../http/pages.ts'
import type { Log } from '../observe/log.ts'
import type { Config } from '../settings/config.ts'

export function startPortal({ host, port }: NonNullable<Config['portal']>, portal: Portal, log: Log) {
  return startPages({
    host,
    port,
    settings: 'SLUICE_PORTAL_HOST and SLUICE_PORTAL_PORT',
    mostConnections: PORTAL_MAX_CONNECTIONS,
    answer: (request) => portal.answer(request),
    onFault: (error) =>
      log.error({ err: error }, 'bug in the portal: a page could not be sent; events are not affected'),
  })
}
