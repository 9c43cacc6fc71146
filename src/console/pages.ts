// The console's own files, read and compressed once at the start. The views share one page, which finds its view by the
// address.

import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { type AdminRequest, type Answer, answered, methodProblem } from '../http/admin-routes.ts'

/** Where the build puts them, seen from src/ and from dist/. */
export const BUILT_PAGES = fileURLToPath(new URL('../../dist/console/', import.meta.url))

export const VIEWS: readonly string[] = ['/', '/events', '/refused', '/batch', '/apps', '/app', '/explain', '/search']
export const PORTAL_VIEWS: readonly string[] = ['/', '/events', '/refused', '/batch', '/explain']
const ASSETS_PATH = '/assets/'
/** Far above what the build makes; a folder of something else is not read into memory. */
const MAX_FILES = 64
const MAX_BYTES = 4_194_304

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.woff2': 'font/woff2',
}

const SECURITY = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; " +
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
}

interface File {
  readonly contentType: string
  readonly bytes: Buffer
  readonly gzip: Buffer
  readonly headers: Answer['headers']
  readonly etag: string
}

export class Pages {
  readonly #files: ReadonlyMap<string, File>

  /** `folder`: index.html, and assets/ whose names change with their content. */
  constructor(folder: string) {
    this.#files = readFiles(folder)
  }

  /** null: this is no path of a page. */
  answer({ method, path, headers }: Pick<AdminRequest, 'method' | 'path' | 'headers'>, views = VIEWS): Answer | null {
    const isView = views.includes(path)
    if (!isView && !path.startsWith(ASSETS_PATH)) return null
    if (method !== 'GET' && method !== 'HEAD') return methodProblem(['GET'])
    const file = this.#files.get(isView ? '/' : path)
    if (file !== undefined) return fileAnswer(file, headers)
    const message = isView
      ? 'the pages of the console are not in this installation; its API under /api/ works without them\n'
      : 'the console has no such file\n'
    return answered(404, 'text/plain; charset=utf-8', message, SECURITY)
  }
}

function fileAnswer(file: File, asked: AdminRequest['headers']): Answer {
  const { contentType, headers, etag } = file
  const isGzip = /\bgzip\b(?!;\s*q=0(?:\.0*)?(?:,|$))/i.test(asked['accept-encoding'] ?? '')
  const body = isGzip ? file.gzip : file.bytes
  const known = asked['if-none-match']?.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  if (known?.includes(etag)) return { status: 304, contentType, headers, body }
  return { status: 200, contentType, headers: isGzip ? { ...headers, 'Content-Encoding': 'gzip' } : headers, body }
}

function readFiles(folder: string): Map<string, File> {
  const files = new Map<string, File>()
  const assets = join(folder, 'assets')
  const names = existsSync(assets) ? readdirSync(assets) : []
  const paths = [['/', join(folder, 'index.html')], ...names.map((name) => [ASSETS_PATH + name, join(assets, name)])]
  let bytesLeft = MAX_BYTES
  for (const [path, file] of paths.slice(0, MAX_FILES)) {
    const contentType = TYPES[extname(file)]
    if (contentType === undefined || !existsSync(file)) continue
    const bytes = readFileSync(file)
    bytesLeft -= bytes.length
    if (bytesLeft < 0) break
    const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`
    const caching = path === '/' ? 'no-cache' : 'public, max-age=31536000, immutable'
    const headers = { 'Cache-Control': caching, ETag: etag, Vary: 'Accept-Encoding', ...SECURITY }
    files.set(path, { contentType, bytes, gzip: gzipSync(bytes, { level: 9 }), headers, etag })
  }
  return files
}
