/** The status page in a real browser. */
import t, { type Test } from 'tap'
import type { Locator, Page } from 'playwright-core'
import { openTunnel } from '../kit/proxies/open-tunnel.js'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { artifactsFolder, BROWSER, openPage, screenshot, startBrowser } from './browser.js'
import { needs } from '../kit/processes/command.js'
import { allowing, needsBuild, type Sluice, startSluice } from './program.js'

const skip = needsBuild() || needs(BROWSER)

async function deny(t: Test, { proxyPort }: Sluice, authority: string): Promise<void> {
  const client = await rawClient(t, proxyPort)
  client.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
  t.match(await client.untilEnd(), /^HTTP\/1\.1 403 /)
}

const ready = (page: Page) => page.getByText('ready', { exact: true }).waitFor()

/** Whether the page needs horizontal scrolling. */
const overflow = (page: Page) =>
  page.evaluate<number>('document.documentElement.scrollWidth - document.documentElement.clientWidth')

t.test(
  'shows refused requests with the YAML that would allow them, and closes a tunnel by keyboard only',
  {
    skip,
  },
  async t => {
    const origin = await rawOrigin(t)
    const sluice = await startSluice(t, allowing(origin.port))
    const browser = await startBrowser(t)
    const folder = await artifactsFolder(t)
    const url = `${sluice.adminUrl}/`
    const { page, complaints } = await openPage(t, browser, url, {
      viewport: { width: 1280, height: 900 },
      permissions: ['clipboard-read', 'clipboard-write'],
    })
    await ready(page)
    t.equal(await page.getByText('No tunnel is open.').isVisible(), true)

    await deny(t, sluice, 'packages.example.test:443')
    const denial = page.locator('#denials summary', { hasText: 'packages.example.test:443' })
    await denial.waitFor()
    t.match(await denial.textContent(), 'no_rule')
    await denial.focus()
    await page.keyboard.press('Enter')
    const yaml = page.locator('#denials pre')
    await yaml.waitFor()
    t.equal(
      await yaml.textContent(),
      '  https-packages_example_test:\n    hosts: [packages.example.test]\n    ports: [443]',
      'as text',
    )

    await page.getByRole('button', { name: 'Copy the YAML: For just this host' }).click()
    await page.getByText('Copied', { exact: true }).first().waitFor()
    t.equal(
      await page.evaluate<string>('navigator.clipboard.readText()'),
      '  https-packages_example_test:\n    hosts: [packages.example.test]\n    ports: [443]\n',
    )

    const { client } = await openTunnel(t, { port: sluice.proxyPort }, origin)
    client.write('0123456789')
    const button = page.getByRole('button', { name: `Close the tunnel to ${origin.authority}` })
    await button.waitFor()
    await screenshot(page, folder, 'status-light')
    await page.getByRole('searchbox', { name: 'Filter' }).focus()
    for (let tabs = 0; tabs < 12 && !(await isFocused(button)); tabs++) await page.keyboard.press('Tab')
    t.equal(await isFocused(button), true, 'Tab leads to the button')
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('dialog', { name: 'Close this tunnel?' })
    await dialog.getByText(`${origin.authority} for private (127.0.0.1): 10 B in `).waitFor()
    t.equal(await isFocused(dialog.getByRole('button', { name: 'Keep it' })), true)
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'hidden' })
    t.equal(await isFocused(button), true, 'Escape leads back, and closes nothing')
    await page.keyboard.press('Enter')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await button.waitFor({ state: 'detached' })
    // It uses another connection than the removal of the row, so either may come first.
    await page
      .getByRole('status')
      .filter({ hasText: `The tunnel to ${origin.authority} is closed` })
      .waitFor({ state: 'attached' })
    t.equal(await client.untilEnd(), '')
    const { bytes_up: bytesUp } = await sluice.logged({ event: 'close', close_reason: 'operator' })
    t.equal(bytesUp, 10)
    t.same(complaints, [])
  },
)

const isFocused = (locator: Locator) => locator.evaluate(element => element.matches(':focus'))

t.test('fits 360 pixels, in light and dark mode, and every control has a name', { skip }, async t => {
  const origin = await rawOrigin(t)
  const sluice = await startSluice(t, allowing(origin.port))
  const browser = await startBrowser(t)
  const folder = await artifactsFolder(t)
  await deny(t, sluice, `${'a-very-long-label-'.repeat(3)}.${'and-another-one'.repeat(4)}.example.test:8443`)
  await openTunnel(t, { port: sluice.proxyPort }, origin)
  const backgrounds = new Set<string>()
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const width of [360, 1280]) {
      const { page, complaints } = await openPage(t, browser, `${sluice.adminUrl}/`, {
        viewport: { width, height: 800 },
        colorScheme,
      })
      await ready(page)
      await page.locator('#denials summary').click()
      await page.locator('#denials pre').waitFor()
      await page.getByRole('button', { name: 'Close the tunnel' }).waitFor()
      t.equal(await overflow(page), 0, `${colorScheme} ${width}`)
      backgrounds.add(await page.evaluate<string>('getComputedStyle(document.body).backgroundColor'))
      for (const role of ['button', 'link', 'searchbox', 'region', 'table', 'slider'] as const) {
        const all = await page.getByRole(role).count()
        const named = await page.getByRole(role, { name: /\S/ }).count()
        t.ok(all > 0, role)
        t.equal(named, all, `${role} has a name`)
      }
      for (const landmark of ['banner', 'main', 'contentinfo'] as const) {
        t.equal(await page.getByRole(landmark).count(), 1, landmark)
      }
      await screenshot(page, folder, `status-${colorScheme}-${width}`)
      t.same(complaints, [])
      await page.close()
    }
  }
  t.equal(backgrounds.size, 2, 'light is not dark')
})

t.test('shows that it is disconnected when the proxy is gone', { skip }, async t => {
  const sluice = await startSluice(t, allowing(80))
  const browser = await startBrowser(t)
  const { page } = await openPage(t, browser, `${sluice.adminUrl}/`)
  await ready(page)
  t.equal(await sluice.stop(), 0, 'a watcher does not hold it up')
  await page.getByText('disconnected, retrying', { exact: true }).waitFor()
})
