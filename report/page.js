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

  // Black ink that the paper shows through; the style makes it light on a dark screen.
  function drawImages() {
    for (const canvas of document.querySelectorAll("canvas[data-pixels]")) {
      const bytes = atob(canvas.dataset.pixels);
      const context = canvas.getContext("2d");
      const image = context.createImageData(canvas.width, canvas.height);
      for (let i = 0; i < bytes.length; ++i) image.data[4 * i + 3] = bytes.charCodeAt(i);
      context.putImageData(image, 0, 0);
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    followReader();
    addCopyButtons();
    drawImages();
  });
})();
