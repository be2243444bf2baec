import { useData } from 'vitepress';
import CopyOrDownloadAsMarkdownButtons from 'vitepress-plugin-llms/vitepress-components/CopyOrDownloadAsMarkdownButtons.vue';
import { defineComponent, h, onMounted } from 'vue';

/** The buttons of the plugin that have no text, and what screen readers say for them. */
const NAMES = { '.chevron-wrapper': 'More ways to read this page', '.download-btn': 'Download this page as Markdown' };

/** "Copy page", but not in the API reference, which has no pages in Markdown. */
export default defineComponent(() => {
  const { page } = useData();
  onMounted(() => {
    for (const [selector, name] of Object.entries(NAMES)) {
      const button = document.querySelector(`.markdown-copy-buttons ${selector}`);
      button?.setAttribute('aria-label', name);
      button?.setAttribute('title', name);
    }
  });
  return () => (page.value.relativePath.startsWith('api/') ? undefined : h(CopyOrDownloadAsMarkdownButtons));
});
