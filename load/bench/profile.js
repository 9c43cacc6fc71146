// @ts-check
// `--profile`: where the time goes under full load, as flame graphs, one for each thread that ran JavaScript.

import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { casesOf, nameOf, SEED } from './cases.js'
import { flameGraph } from './flame.js'
import { startService } from './servers.js'
import { unlessVoid } from './void-runs.js'
import { runWrk, writeBodies } from './wrk.js'

const [KIND] = casesOf({ events: [10], keyed: [true], varied: [true] })

/** @param {import('./turns.js').Options} options @param {string} folder @returns {Promise<import('./turns.js').Section>} */
export async function profile(options, folder) {
  await mkdir(folder, { recursive: true })
  const before = new Set(await readdir(folder))
  options.progress(`profile: ${nameOf(KIND)}`)
  const bodies = await writeBodies(options.folder, KIND, SEED)
  const service = await startService({ nodeArgs: ['--cpu-prof', `--cpu-prof-dir=${folder}`] })
  const seconds = options.quick ? 3 : 10
  const result = await unlessVoid(nameOf(KIND), () => runWrk(service, bodies, { keyed: true, seconds }))
  // Each thread writes its profile when the service ends.
  await service.stop()
  const profiles = (await readdir(folder)).filter((name) => name.endsWith('.cpuprofile') && !before.has(name))
  const graphs = []
  for (const name of profiles) {
    const graph = join(folder, name.replace(/cpuprofile$/, 'svg'))
    const title = `${nameOf(KIND)}, full load, ${options.machine}`
    await writeFile(graph, flameGraph(title, JSON.parse(await readFile(join(folder, name), 'utf8'))))
    graphs.push(graph)
  }
  if (graphs.length === 0) throw new Error(`the service left no profile in ${folder}`)
  const list = graphs.map((graph) => `  ${graph}\n`).join('')
  const text = `Flame graphs of ${seconds} s at ${Math.round(result.perSecond)} requests a second; the .cpuprofile beside each opens in a browser's developer tools:\n${list}`
  return { numbers: { graphs, result }, text }
}
