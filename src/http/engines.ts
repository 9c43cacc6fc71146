// Which engine reads HTTP: uWebSockets.js where it loads, otherwise Node's own server, or the one that is asked for.

import type { Part } from '../contract/health.ts'
import { errorMessage, StartError } from '../lib/errors.ts'
import { isOlderVersion } from '../lib/version.ts'
import { loadEngine, OLD_ENGINE_WARNING } from './uws/load.ts'
import type { OpenEngine } from './wire.ts'

export interface EngineWish {
  readonly httpEngine: 'auto' | EngineName
  readonly processes: number
}

export type EngineName = 'uws' | 'node'

export interface ChosenEngine {
  readonly name: EngineName
  /** What whoever runs the service should know of it: the log says it at the start. null: nothing. */
  readonly warning: string | null
  readonly open: OpenEngine
  /** As health shows it; none of uWebSockets.js. */
  readonly parts: readonly Part[]
}

/** The first that lets several processes listen on one port. */
const NODE_WITH_REUSE_PORT = '22.12'
export const NODE_ENGINE_COST = "HTTP is read by Node's own server, which carries about seven tenths as much"

/** Throws a StartError that says what would work. */
export async function chooseEngine(wish: EngineWish): Promise<ChosenEngine> {
  if (wish.httpEngine === 'node') return nodeEngine(wish, null)
  try {
    const { isOld } = await loadEngine()
    const { openEngine } = await import('./uws/apps.ts')
    return { name: 'uws', warning: isOld ? OLD_ENGINE_WARNING : null, open: openEngine, parts: [] }
  } catch (error) {
    if (wish.httpEngine === 'uws') throw error
    return nodeEngine(wish, `${errorMessage(error)}. ${NODE_ENGINE_COST}`)
  }
}

async function nodeEngine({ processes }: EngineWish, warning: string | null): Promise<ChosenEngine> {
  if (processes > 1 && isOlderVersion(process.versions.node, NODE_WITH_REUSE_PORT)) {
    const why = warning === null ? '' : `${warning}. `
    throw new StartError(
      `${why}With Node's own HTTP server SLUICE_PROCESSES must be 1 before Node ${NODE_WITH_REUSE_PORT}`,
    )
  }
  const { openEngine } = await import('./node/open.ts')
  const state = warning === null ? 'ok' : 'warn'
  return { name: 'node', warning, open: openEngine, parts: [{ part: 'http', kind: 'node_http', state, reason: null }] }
}
