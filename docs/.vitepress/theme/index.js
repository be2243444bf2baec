import DefaultTheme from 'vitepress/theme';
import './style.css';
import CopyPage from './copy-page.js';

export default {
  extends: DefaultTheme,
  /** @param {import('vitepress').EnhanceAppContext} context */
  enhanceApp({ app }) {
    app.component('CopyOrDownloadAsMarkdownButtons', CopyPage);
  },
};
