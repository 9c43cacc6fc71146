// The client with all that it can do.

import { createCore } from './core.ts'
import { explained } from './debug.ts'
import { mirrorOf } from './mirror.ts'
import { watchPages } from './pages.ts'
import type { Platform } from './platform.ts'
import type { Client, Options } from './types.ts'

export function createClientOn(platform: Platform, options: Options): Client {
  const used = options.debug ? explained(platform, options) : { platform, options }
  return createCore(used.platform, used.options, { mirrorOf, watchPages })
}
