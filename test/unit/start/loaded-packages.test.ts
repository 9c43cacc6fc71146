import { buildSync } from 'esbuild'
import { expect, it } from 'vitest'

/** Packages that are loaded with a file, before any of its code asks for more. */
function packagesLoadedWith(entry: string): string[] {
  // A process of its own for each: of one that stays, a later answer was once waited for in vain.
  const { metafile } = buildSync({
    entryPoints: [entry],
    bundle: true,
    splitting: true,
    outdir: 'unused',
    write: false,
    metafile: true,
    platform: 'node',
    format: 'esm',
    packages: 'external',
    loader: { '.lua': 'text' },
  })
  const files = [entry]
  const packages = new Set<string>()
  for (const file of files) {
    for (const { path, kind, external } of metafile.inputs[file].imports) {
      if (kind === 'dynamic-import') continue
      if (external === true) packages.add(path)
      else if (!files.includes(path)) files.push(path)
    }
  }
  return [...packages].filter((name) => !name.startsWith('node:')).sort()
}

it.each(['src/main.ts', 'src/cli/serve/serve.ts', 'src/start/service.ts'])(
  'a service on one machine loads neither the client of Redis nor that of NATS (%s)',
  (entry) => {
    const packages = packagesLoadedWith(entry)
    expect(packages.filter((name) => /redis|nats/.test(name))).toEqual([])
    if (entry === 'src/start/service.ts') expect(packages).toContain('piscina')
  },
)

it('a service with Redis and NATS loads the client of NATS with it, and that of Redis with its first connection', () => {
  const packages = packagesLoadedWith('src/start/shared.ts')
  expect(packages).toEqual(expect.arrayContaining(['@nats-io/transport-node', '@nats-io/jetstream']))
  expect(packages).not.toContain('ioredis')
})
