"use strict";
// The contents, the buttons and the images of the page.
(() => {
  function addCopyButtons() {
    for (const code of document.querySelectorAll(".code")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "Copy";
      button.addEventListener("click", async () => {
        const text = code.querySelector("pre");
        try {
          await navigator.clipboard.writeText(text.textContent);
          button.textContent = "Copied";
        } catch {
          // Where the browser refuses, the text is at least selected.
          getSelection().selectAllChildren(text);
          button.textContent = "Selected";
        }
        setTimeout(() => (button.textContent = "Copy"), 2000);
      });
      code.append(button);
    }
  }

  function followReader() {
    const details = document.querySelector("nav details");
    const wide = window.matchMedia("(min-width: 75rem)");
    const adapt = () => (details.open = wide.matches);
    wide.addEventListener("change", adapt);
    adapt();
    const links = new Map([...document.querySelectorAll("nav a")].map(link => [link.hash.slice(1), link]));
    details.addEventListener("click", event => {
      if (event.target.closest("a") && !wide.matches) details.open = false;
    });
    let current = null;
    const observer = new IntersectionObserver(
      entries => {
        const entered = entries.filter(entry => entry.isIntersecting).at(-1);
        const link = entered && links.get(entered.target.id);
        if (!link || link === current) return;
        current?.removeAttribute("aria-current");
        link.setAttribute("aria-current", "true");
        current = link;
        if (wide.matches) link.scrollIntoView({block: "nearest"});
      },
      {rootMargin: "-10% 0px -80% 0px"},
    );
    for (const section of document.querySelectorAll("main > section")) observer.observe(section);
  }

  // Black ink that the paper shows through; the style makes it light on a dark screen. Numbers with a sign
  // are in one of two colours, the fainter the nearer to zero.
  function drawImages() {
    const style = getComputedStyle(document.documentElement);
    const channels = name => [1, 3, 5].map(at => parseInt(style.getPropertyValue(name).trim().slice(at, at + 2), 16));
    const ink = [0, 0, 0], negative = channels("--negative"), positive = channels("--positive");
    for (const canvas of document.querySelectorAll("canvas[data-pixels]")) {
      const signed = canvas.closest(".signed");
      const bytes = atob(canvas.dataset.pixels);
      const context = canvas.getContext("2d");
      const image = context.createImageData(canvas.width, canvas.height);
      for (let i = 0; i < bytes.length; ++i) {
        const byte = bytes.charCodeAt(i), above = byte - 128;
        image.data.set(signed ? (above < 0 ? negative : positive) : ink, 4 * i);
        image.data[4 * i + 3] = signed ? Math.min(255, Math.abs(above) * 2.008) : byte;
      }
      context.putImageData(image, 0, 0);
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    followReader();
    addCopyButtons();
    drawImages();
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawImages);
  });
})();
