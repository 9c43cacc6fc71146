// Compiles the scanner to WebAssembly, into dist/decode/scanner.wasm, unless that is newer than all it is made of.

import { statSync } from 'node:fs'
import { mkdir, readdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

const here = new URL('.', import.meta.url)
const target = new URL('../../../dist/decode/scanner.wasm', here)

const builtMs = statSync(target, { throwIfNoEntry: false })?.mtimeMs ?? 0
const files = await readdir(here)
if (files.some((file) => statSync(new URL(file, here)).mtimeMs > builtMs)) await compile()

async function compile() {
  const { default: asc } = await import('assemblyscript/asc')
  await mkdir(new URL('.', target), { recursive: true })
  // Nothing of the module's own lies in memory: no static data, no heap, no stack. 65,536 pages are any memory's most.
  const memory = '--importMemory --noExportMemory --sharedMemory --initialMemory 1 --maximumMemory 65536 --memoryBase 0'
  const options = `--runtime stub --enable simd,threads,bulk-memory -O3 --noAssert ${memory}`
  const source = fileURLToPath(new URL('scanner.ts', here))
  const { error, stderr } = await asc.main([source, '--outFile', fileURLToPath(target), ...options.split(' ')])
  if (error === null) return
  process.stderr.write(`${stderr.toString()}\n`)
  process.exitCode = 1
}
