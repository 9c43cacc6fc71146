// sluice-client: import { createClient } from 'sluice-client'

import { createClientOn } from './client.ts'
import { systemPlatform } from './platform.ts'
import type { Client, Options } from './types.ts'

export type * from './types.ts'

export const createClient = (options: Options): Client => createClientOn(systemPlatform(), options)
