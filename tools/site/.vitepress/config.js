// The site of the pages that build.js has put together. SITE_BASE is the path that it is published under.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'
import { DOORS, OPENAPI } from '../doors.js'
import { REPOSITORY, titleOf } from '../pages.js'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const base = process.env['SITE_BASE'] ?? '/'
const linkOf = (path) => (path === 'README.md' ? '/' : `/${path.replace(/\.md$/, '')}`)
const itemOf = (path) => ({ text: titleOf(readFileSync(ROOT + path, 'utf8'), path), link: linkOf(path) })
const explain = { text: 'Explain a body', link: '/explain.html', target: '_self' }
const apis = OPENAPI.map(({ name, title }) => ({ text: title, link: `/api/${name}.html`, target: '_self' }))

export default defineConfig({
  title: 'sluice',
  description: 'Every event your SDKs send is stored once, or refused with a reason, and you can see which.',
  base,
  srcDir: 'pages',
  outDir: 'dist',
  cacheDir: '.cache',
  rewrites: { 'README.md': 'index.md' },
  ignoreDeadLinks: [/^https?:\/\/localhost/],
  // A page may show braces: nothing in it is a template.
  markdown: { config: showBraces },
  themeConfig: {
    search: { provider: 'local' },
    outline: { level: [2, 3] },
    nav: [
      ...DOORS.slice(1, 5).map(({ name, pages }) => ({ text: name, link: linkOf(pages[0]) })),
      { text: 'API', items: apis },
      explain,
    ],
    sidebar: [
      ...DOORS.map(({ name, pages }) => ({ text: name, items: pages.map(itemOf) })),
      { text: 'API', items: [...apis, explain] },
    ],
    socialLinks: [{ icon: 'github', link: REPOSITORY }],
  },
})

function showBraces(markdown) {
  const { rules } = markdown.renderer
  const shown = (text) => markdown.utils.escapeHtml(text).replaceAll('{{', '<span>{</span><span>{</span>')
  rules.text = (tokens, at) => shown(tokens[at].content)
  rules.code_inline = (tokens, at) => `<code>${shown(tokens[at].content)}</code>`
}
