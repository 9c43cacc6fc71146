// sluice-client: import { createClient } from 'sluice-client'

import { createClientOn } from './client.ts'
import { createCore } from './core.ts'
import { systemPlatform } from './platform.ts'
import type { AnyEvents, Client, Options, SyncStore } from './types.ts'

export type * from './types.ts'

/** What createSmallClient does without. */
type More = 'store' | 'pageViews' | 'debug'

export const createClient = <E extends object = AnyEvents>(options: Options): Client<E> =>
  createClientOn(systemPlatform(), options)

/** A smaller script, for a bundler that leaves out what nobody imports. */
export const createSmallClient = <E extends object = AnyEvents>(
  options: Omit<Options, More> & { readonly store?: SyncStore },
): Client<E> => createCore(systemPlatform(), options)
